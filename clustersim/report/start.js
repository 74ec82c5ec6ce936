// A page without a window may never be painted, so that is not waited for longer than this.
const NO_FRAME_MS = 300;

// The texts are painted first; then plotly.js is unpacked, and the figures in the window are drawn.
const start = async () => {
  const script = document.createElement("script");
  const [source, variants] = await Promise.all([unpack("plotly"), unpackJson("figures")]);
  script.textContent = source;
  document.head.append(script);
  for (const panel of panels.filter((one) => !one.ofRun)) {
    panel.variants = variants[panel.name];
    panel.figure = panel.variants[panel.variant];
    settle(panel);
  }
  canDraw = true;
  wireDrawing();
  wireSaving();
  if (page.runs.length) await showRun();
  else drawNear();
  goTo(address().place);
};

wireChoices();
followContents();
markRun();
if (page.runs.length > 1 && address().run >= 0) choose(address().run);
if (typeof DecompressionStream === "undefined") {
  document.body.classList.add("no-figures");
  document.getElementById("content").insertAdjacentHTML("afterbegin",
    '<p class="banner" role="alert">This browser cannot unpack the figures: Chrome and Edge from 80, Safari from 16.4, and ' +
    "Firefox from 113 can. Texts and tables are complete.</p>");
} else {
  let started = false;
  const startOnce = () => {
    if (!started) start();
    started = true;
  };
  requestAnimationFrame(() => setTimeout(startOnce, 0));
  setTimeout(startOnce, NO_FRAME_MS);
}
