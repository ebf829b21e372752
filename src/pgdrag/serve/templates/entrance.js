// The token is in the fragment, which no browser sends: it is posted once, for a cookie that no script can read.
(async () => {
  "use strict";
  const token = location.hash.slice(1);
  if (!token) return;
  history.replaceState(null, "", location.pathname + location.search);
  const answer = await fetch(`/${location.pathname.split("/")[1]}/enter`, { method: "POST", body: new URLSearchParams({ token }) });
  if (answer.ok) location.reload();
  else document.getElementById("words").textContent = "This address is of another pgdrag serve, or of one that has ended.";
})();
