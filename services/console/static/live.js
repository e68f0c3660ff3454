// Keeps the page up to date: the server says that something changed, the page is read again, and its main part is exchanged. What was
// open stays open, and the focus stays where it was.
"use strict";
(() => {
  const status = document.getElementById("live");
  let source, busy = false, again = false;

  function say(on) {
    if (!status) return;
    status.dataset.state = on ? "on" : "off";
    status.textContent = on ? "live" : "not live";
  }

  async function reload() {
    if (busy) { again = true; return; }
    busy = true;
    try {
      const answer = await fetch(location.href, { credentials: "same-origin", redirect: "error", cache: "no-store" });
      if (!answer.ok) { if (answer.status === 404) location.reload(); return; }
      const next = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("main");
      if (next) exchange(next);
    } catch (e) {
      say(false);
    } finally {
      busy = false;
      if (again) { again = false; reload(); }
    }
  }

  function exchange(next) {
    const now = document.getElementById("main");
    const form = now.contains(document.activeElement) && document.activeElement.form;
    const focused = now.contains(document.activeElement) ? document.activeElement.id || document.activeElement.getAttribute("href") : "";
    const open = new Map([...now.querySelectorAll("details[id]")].map((d) => [d.id, d.open]));
    for (const d of next.querySelectorAll("details[id]")) if (open.has(d.id)) d.open = open.get(d.id);
    if (form) { // somebody is typing: what was typed stays
      const fresh = next.querySelector("form");
      if (fresh) fresh.replaceWith(now.querySelector("form"));
    }
    now.replaceChildren(...next.childNodes);
    now.dataset.mark = next.dataset.mark;
    now.classList.remove("changed");
    requestAnimationFrame(() => now.classList.add("changed"));
    if (focused) {
      const target = document.getElementById(focused) || [...now.querySelectorAll("a[href]")].find((a) => a.getAttribute("href") === focused);
      if (target && target !== document.activeElement) target.focus({ preventScroll: true });
    }
  }

  function follow() {
    const main = document.getElementById("main");
    const address = main.dataset.live;
    if (!address || !window.EventSource) return;
    source = new EventSource(address + (address.includes("?") ? "&" : "?") + "mark=" + encodeURIComponent(main.dataset.mark));
    source.addEventListener("open", () => say(true));
    source.addEventListener("change", reload);
    source.addEventListener("bye", () => { source.close(); say(false); location.reload(); });
    source.addEventListener("error", () => say(false)); // the browser connects anew by itself
  }

  addEventListener("pagehide", () => source && source.close());
  addEventListener("pageshow", (e) => { if (e.persisted) { follow(); reload(); } });
  follow();
})();
