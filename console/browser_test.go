package console

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	cdplog "github.com/chromedp/cdproto/log"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"chorus/internal/event"
)

// browser is a tab of a headless Chromium that notes everything that a page must not do.
type browser struct {
	t   *testing.T
	ctx context.Context

	mu   sync.Mutex
	sins []string // guarded by mu: dialogs, script errors, what the content security policy has stopped
}

// openBrowser starts a browser. Without one the test is skipped, but never in CI.
func openBrowser(t *testing.T) *browser {
	t.Helper()
	var path string
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		if os.Getenv("CI") != "" {
			t.Fatal("no Chromium is installed, and CI must not skip this")
		}
		t.Skip("no Chromium is installed: apt-get install chromium")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.UserDataDir(t.TempDir()))
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	t.Cleanup(func() { _ = chromedp.Cancel(ctx) }) // waits for the process, so that its folder can be removed
	b := &browser{t: t, ctx: ctx}
	if err := chromedp.Listen(ctx, b.watch); err != nil {
		t.Fatalf("start %s: %v", path, err)
	}
	if _, err := chromedp.Call(ctx, cdplog.Enable, cdp.Empty{}); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *browser) watch(e any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := e.(type) {
	case *cdppage.EventJavascriptDialogOpening: // and there it stands until the test fails
		b.sins = append(b.sins, "dialog: "+e.Message)
	case *runtime.EventExceptionThrown:
		b.sins = append(b.sins, "exception: "+e.ExceptionDetails.Text)
	case *cdplog.EventEntryAdded:
		if e.Entry.Source == cdplog.EntrySourceSecurity || strings.Contains(e.Entry.Text, "Content Security Policy") {
			b.sins = append(b.sins, e.Entry.Text)
		}
	}
}

func (b *browser) innocent() {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.sins) > 0 {
		b.t.Errorf("the pages did what they must not do:\n%s", strings.Join(b.sins, "\n"))
	}
}

// do does something in the page.
func (b *browser) do(what string, steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		b.fail(what, err)
	}
}

// eval asks the page. The protocol's questions are no scripts of the page, so its security policy allows them.
func eval[T any](b *browser, expression string) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		b.fail(expression, err)
	}
	return v
}

// holds waits until an expression is true in the page, also across navigations.
func (b *browser) holds(expressions ...string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	for _, expression := range expressions {
		for {
			ok, err := chromedp.Run(ctx, chromedp.Evaluate[bool]("!!("+expression+")"))
			if ok {
				break
			}
			if ctx.Err() != nil {
				b.fail(expression, fmt.Errorf("it is not so: %v", err))
			}
			pause(ctx.Done(), 30*time.Millisecond)
		}
	}
}

func (b *browser) fail(what string, err error) {
	b.t.Helper()
	b.innocent()
	ctx, cancel := context.WithTimeout(b.ctx, time.Second)
	defer cancel()
	text, _ := chromedp.Run(ctx, chromedp.Evaluate[string](`location.href + "\n" + document.body.innerText`)) // for the person who reads the failure
	b.t.Fatalf("%s: %v\nthe page is %s", what, err, text)
}

const says = `document.querySelector("#live")?.innerText.includes(`

// A person orders with one click, sees the order at once, and watches it travel without reloading; a restart of the console
// loses nothing of it, nor of what the person was typing (D10, UI-01, UI-03).
func TestInTheBrowser(t *testing.T) {
	t.Parallel()
	b := openBrowser(t)
	r := start(t)
	css := func(s string) chromedp.CSS { return chromedp.CSS(s) }
	b.do("order", chromedp.Navigate(r.url+"/"), chromedp.SetValue(css(`input[name="customer"]`), nasty),
		chromedp.SetValue(css(`input[name="q:85123A"]`), "3"), chromedp.Click(css(`button[value="85123A"]`)))
	b.holds(says+`"ordered 3 items for €7.65")`, `!document.getElementById("pulse").hidden`)
	order, err := event.ParseOrderNo(eval[string](b, `window.unreloaded = true; location.pathname.split("/")[2]`))
	if err != nil {
		t.Fatal(err)
	}
	r.shop.locked(func() { r.shop.orders[order].Actions = []string{"compensate", "resolve:payment"} })
	cause := r.follow(order, event.ID{}, 1, event.Inventory, event.StockReserved{Reservation: nasty})
	b.holds(says + `"the goods are held")`)
	b.do("look closer", chromedp.Click(css(`.timeline li:first-child summary`)), chromedp.SendKeys(css(`textarea[name="evidence"]`), "seen the state"))

	r.stopConsole()
	b.holds(`document.getElementById("pulse").classList.contains("off")`)
	cause = r.follow(order, cause, 2, event.Shipping, event.ShipmentScheduled{Shipment: "S", Carrier: "postal"})
	r.follow(order, cause, 3, event.Fraud, event.OrderScreened{Score: 1, Verdict: event.Clear})
	cause = r.follow(order, cause, 3, event.Billing, event.PaymentTaken{Payment: "P", Processor: "standard", Amount: 765, Currency: "EUR"})
	r.startConsole()
	b.holds(says+`"charged €7.65")`, `document.querySelectorAll(".timeline > li").length === 5`)
	r.shop.locked(func() { r.shop.orders[order].Status = "CONFIRMED" })
	r.follow(order, cause, 4, event.Orders, event.OrderConfirmed{})
	b.holds(`document.querySelector("#live .pill").innerText === "CONFIRMED"`, says+`"Nothing is outstanding")`)
	if evidence := eval[string](b, `document.querySelector('textarea[name="evidence"]').value`); evidence != "seen the state" {
		t.Errorf("of what was typed %q is left", evidence)
	}
	if !eval[bool](b, `document.querySelector(".timeline li:first-child details").open`) {
		t.Error("what was opened has closed")
	}
	if !eval[bool](b, `window.unreloaded === true`) {
		t.Error("the page was loaded anew")
	}
	b.do("cancel", chromedp.SendKeys(css(`#acompensate textarea`), "recalled"), chromedp.Click(css(`#acompensate button`)))
	b.holds(`document.querySelector("#live .pill")?.innerText === "CANCELLING"`, says+`"being cancelled by an operator")`)

	for _, path := range []string{"/", "/flow", "/lag", "/dead-letters", "/experiments", "/orders"} {
		b.do("visit "+path, chromedp.Navigate(r.url+path))
		b.holds(`document.querySelector("main").innerText.length > 50`)
	}
	b.holds(`!document.getElementById("pulse").hidden`)
	r.order("newcomer")
	b.holds(says + `"newcomer")`)
	b.innocent()
}
