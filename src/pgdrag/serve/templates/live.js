// Keeps what a page shows of runs under way up to date with what the server sends.
(() => {
  "use strict";
  const state = document.getElementById("state");
  const source = new EventSource(document.querySelector("main").dataset.events);
  source.addEventListener("state", event => {
    if (!state.contains(document.activeElement)) state.innerHTML = event.data;
  });
  source.addEventListener("series", event => {
    document.dispatchEvent(new CustomEvent("series", { detail: JSON.parse(event.data) }));
  });
  source.addEventListener("end", () => {
    source.close();
    location.reload();
  });
})();
