package tools

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"chorus/internal/choreography"
	"chorus/internal/cluster"
	"chorus/internal/event"
	"chorus/internal/inspect"
	"chorus/internal/provider/simulated"
	"chorus/internal/tracker"
)

// Cluster tells where the processes of a cluster are: as flags and environment say, and else as the folder of a running `chorus up` does.
type Cluster struct {
	Data             string   `help:"Data folder of the chorus up whose addresses are used." default:".chorus" type:"path" env:"CHORUS_DATA"`
	OrdersURL        string   `help:"Orders service." env:"CHORUS_ORDERS_URL" placeholder:"URL"`
	InventoryURL     string   `help:"Inventory service." env:"CHORUS_INVENTORY_URL" placeholder:"URL"`
	FraudURL         string   `help:"Fraud service." env:"CHORUS_FRAUD_URL" placeholder:"URL"`
	ShippingURL      string   `help:"Shipping service." env:"CHORUS_SHIPPING_URL" placeholder:"URL"`
	BillingURL       string   `help:"Billing service." env:"CHORUS_BILLING_URL" placeholder:"URL"`
	NotificationsURL string   `help:"Notifications service." env:"CHORUS_NOTIFICATIONS_URL" placeholder:"URL"`
	ProvidersURL     string   `help:"Simulated providers." env:"CHORUS_PROVIDERS_URL" placeholder:"URL"`
	CDCURL           string   `help:"Publisher's health address." name:"cdc-url" env:"CHORUS_CDC_URL" placeholder:"URL"`
	FrontURL         string   `help:"Front address: console and tracker." name:"url" env:"CHORUS_URL" placeholder:"URL"`
	Kafka            []string `help:"Kafka brokers." env:"CHORUS_KAFKA" placeholder:"HOST:PORT"`
	Registry         string   `help:"Schema registry." env:"CHORUS_REGISTRY" placeholder:"URL"`
}

// addresses are by the name of the process.
type addresses map[string]string

// notUp says that a data folder belongs to no running cluster.
type notUp struct {
	dir  string
	left bool // a supervisor that was killed has left its file
}

func (e notUp) Error() string {
	if e.left {
		return "no cluster is up in " + e.dir + " (its addresses do not answer)"
	}
	return "no cluster is up in " + e.dir
}

// upWithin bounds the question whether a supervisor is there. It is on this machine.
const upWithin = 2 * time.Second

// running reads the cluster file of a data folder. A supervisor that was killed leaves its file behind, with addresses at which
// every client would wait and try again, so the supervisor's own is tried first.
func running(ctx context.Context, dir string) (cluster.File, error) {
	file, err := cluster.ReadFile(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return file, notUp{dir, false}
	case err != nil:
		return file, fmt.Errorf("read the addresses in %s: %w", dir, err)
	case file.Control == "":
		return file, nil
	}
	control, err := url.Parse(file.Control)
	if err != nil {
		return file, fmt.Errorf("read the addresses in %s: %w", dir, err)
	}
	dialer := net.Dialer{Timeout: upWithin}
	conn, err := dialer.DialContext(ctx, "tcp", control.Host)
	if err != nil {
		return file, notUp{dir, true}
	}
	conn.Close()
	return file, nil
}

// addresses joins flags and folder; flags win.
func (c Cluster) addresses(ctx context.Context) (addresses, error) {
	all := addresses{}
	file, err := running(ctx, c.Data)
	if err == nil {
		maps.Copy(all, file.Addresses)
	} else if !errors.As(err, new(notUp)) {
		return nil, err
	}
	for name, address := range map[string]string{
		"front": c.FrontURL, "orders": c.OrdersURL, "inventory": c.InventoryURL, "fraud": c.FraudURL, "shipping": c.ShippingURL, "billing": c.BillingURL,
		"notifications": c.NotificationsURL, "providers": c.ProvidersURL, "cdc": c.CDCURL,
		"kafka": strings.Join(c.Kafka, ","), "registry": c.Registry,
	} {
		if address != "" {
			all[name] = address
		}
	}
	if len(all) == 0 {
		if err == nil {
			err = fmt.Errorf("there are no addresses in %s", c.Data)
		}
		return nil, fmt.Errorf("%w: name its folder (--data, CHORUS_DATA) or the addresses (--orders-url, --kafka, ...)", err)
	}
	return all, nil
}

// url returns the address of a process.
func (a addresses) url(name string) (string, error) {
	address := a[name]
	if address == "" {
		flag := name + "-url"
		if name == "front" {
			flag = "url"
		}
		return "", fmt.Errorf("the address of %s is not known: --%s, or --data of a cluster that has it", name, flag)
	}
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	return strings.TrimRight(address, "/"), nil
}

// participant returns a client of the inspection API of a service, or of the tracker, whose own is behind the front address.
func (a addresses) participant(name event.Participant) (inspect.Client, error) {
	if name == tracker.Name {
		base, err := a.url("front")
		if err != nil {
			return inspect.Client{}, err
		}
		c := newClient(base).http
		c.Transport = behindFront{c.Transport}
		return inspect.Client{Base: base, HTTP: c}, nil
	}
	base, err := a.url(string(name))
	if err != nil {
		return inspect.Client{}, err
	}
	return inspect.Client{Base: base, HTTP: newClient(base).http}, nil
}

// behindFront finds the tracker's inspection API under the console's.
type behindFront struct{ next http.RoundTripper }

func (b behindFront) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.URL.Path = strings.Replace(r.URL.Path, "/v1/inspect/", "/v1/services/"+tracker.Name+"/inspect/", 1)
	return b.next.RoundTrip(r)
}

// inspected returns clients of several participants.
func (a addresses) inspected(names ...event.Participant) ([]inspect.Client, error) {
	clients := make([]inspect.Client, len(names))
	for i, name := range names {
		var err error
		if clients[i], err = a.participant(name); err != nil {
			return nil, err
		}
	}
	return clients, nil
}

// holders are all who consume facts, and so may hold dead letters.
func holders() []event.Participant { return append(choreography.Participants(), tracker.Name) }

func (a addresses) providers() (*simulated.Client, error) {
	base, err := a.url("providers")
	if err != nil {
		return nil, err
	}
	return simulated.NewClient(base), nil
}

func (a addresses) brokers() ([]string, error) {
	if a["kafka"] == "" {
		return nil, errors.New("the address of Kafka is not known: --kafka, or --data of a cluster that has it")
	}
	return strings.Split(a["kafka"], ","), nil
}
