// Keys, a connection that was lost, and a tab that nobody sees. Everything else is told by the server.
(() => {
  const typing = (element) => element && (element.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(element.tagName));
  const rows = () => [...document.querySelectorAll("tr[data-row]")];
  const click = (selector) => document.querySelector(selector)?.click();

  function move(step) {
    const all = rows();
    const now = all.indexOf(document.activeElement?.closest("tr[data-row]"));
    const next = all[Math.max(0, Math.min(all.length - 1, now < 0 ? 0 : now + step))];
    next?.focus();
    next?.scrollIntoView({ block: "nearest" });
  }

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape" && typing(event.target)) return event.target.blur();
    if (typing(event.target) || document.querySelector(".q-dialog")) return;
    const row = event.target.closest?.("tr[data-row]");
    if (event.key === "/") {
      const field = document.querySelector("[data-search] input, input[data-search]");
      if (field) field.focus();
    } else if (event.key === "j") move(1);
    else if (event.key === "k") move(-1);
    else if (event.key === "Enter" && row && event.target === row) row.querySelector("a")?.click();
    else if (event.key === "r") (row?.querySelector("[data-key=r]") ?? document.querySelector("button[data-key=r]"))?.click();
    else if (event.key === "?") click("[data-key=help]");
    else return;
    event.preventDefault();
  });

  // Dark or light: as the browser wishes, until somebody presses the button. Quasar comes with the page's own scripts.
  const remembered = localStorage.getItem("dark");
  const waiting = setInterval(() => {
    if (!window.did_handshake) return;
    clearInterval(waiting);
    if (remembered) Quasar.Dark.set(remembered === "1");
  }, 20);
  document.addEventListener("click", (event) => {
    if (!event.target.closest?.("[data-dark]")) return;
    Quasar.Dark.toggle();
    localStorage.setItem("dark", Number(Quasar.Dark.isActive));
  });

  let lost = null;
  setInterval(() => {
    const banner = document.getElementById("lost");
    if (!banner || !window.socket) return;
    if (window.socket.connected) lost = null;
    else lost ??= new Date();
    banner.hidden = !lost;
    const said = lost ? `The connection was lost at ${lost.toLocaleTimeString()}: what you see is of then.` : "";
    if (banner.textContent !== said) banner.textContent = said;
    if (window.did_handshake && window.socket.connected && window.socket.id !== toldBy) tellSeen();
  }, 500);

  // Said again by each new socket: what was said by one that was lost may not have come.
  let toldBy = null;
  function tellSeen() {
    if (!window.did_handshake) return;
    toldBy = window.socket.id;
    emitEvent("page_seen", { hidden: document.hidden });
  }
  document.addEventListener("visibilitychange", tellSeen);
})();
