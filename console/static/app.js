// Ages count on between two messages, and the footer says whether the page is live. Nothing here is needed: pages work without it.
"use strict";
(function () {
  function coarse(s) {
    if (s < 100) return s + " s";
    if (s < 6000) return Math.floor(s / 60) + " min";
    if (s < 172800) return Math.floor(s / 3600) + " h";
    return Math.floor(s / 86400) + " days";
  }
  function ages() {
    const now = Date.now();
    for (const el of document.querySelectorAll(".age[data-at]")) {
      const d = (now - Date.parse(el.dataset.at)) / 1000;
      if (Number.isNaN(d)) continue;
      const text = d < -1 ? "in " + coarse(Math.floor(-d)) : d < 1 ? "now" : coarse(Math.floor(d)) + " ago";
      if (el.textContent !== text) el.textContent = text;
    }
  }
  function pulse(on) {
    const el = document.getElementById("pulse");
    if (!el) return;
    el.hidden = false;
    el.textContent = on ? "live" : "reconnecting…";
    el.classList.toggle("off", !on);
  }
  setInterval(ages, 1000);
  document.addEventListener("htmx:sse:after:connection", () => pulse(true));
  document.addEventListener("htmx:sse:before:connection", (e) => { if (e.detail.connection.attempt > 0) pulse(false); });
  document.addEventListener("htmx:sse:error", () => pulse(false));
  document.addEventListener("htmx:sse:close", () => pulse(false));
})();
