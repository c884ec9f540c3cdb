// Keys go to the dashboard as soon as it is connected, without a click into it.
addEventListener("DOMContentLoaded", () => {
  const connected = new MutationObserver(() => {
    if (document.body.classList.contains("-loaded")) {
      connected.disconnect();
      document.querySelector(".xterm-helper-textarea")?.focus();
    }
  });
  connected.observe(document.body, { attributes: true, attributeFilter: ["class"] });
});
