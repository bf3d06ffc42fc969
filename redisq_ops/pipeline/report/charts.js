// Draws every chart of the report page: a <figure> with its specification and a <div> to draw in.
// With `ast` Vega interprets its expressions: the page's policy forbids evaluating text as code.
const config = {
  background: null,
  view: {stroke: null},
  font: 'system-ui, "DejaVu Sans", sans-serif',
  axis: {
    labelColor: "var(--soft)",
    titleColor: "var(--soft)",
    gridColor: "var(--rule)",
    domainColor: "var(--rule)",
    tickColor: "var(--rule)",
    titleFontWeight: "normal",
  },
  axisX: {grid: false, labelFlush: true, labelOverlap: "greedy", labelSeparation: 8},
  axisY: {minExtent: 46, maxExtent: 46, tickCount: 4, domain: false},
  legend: {labelColor: "var(--ink)", symbolSize: 300, symbolStrokeWidth: 2},
  title: {
    anchor: "start",
    frame: "group",
    color: "var(--ink)",
    fontSize: 14,
    subtitleColor: "var(--soft)",
    subtitleFontSize: 12,
    offset: 8,
  },
};
for (const data of document.querySelectorAll('script[type="application/json"]')) {
  const spec = JSON.parse(data.textContent), beside = spec.vconcat ? 84 : 200;
  const room = Math.max(data.parentElement.clientWidth - beside, 160);
  const letters = new RegExp(`.{1,${Math.floor(room / 6.5)}}( |$)`, "g");
  const legend = spec.encoding?.color?.legend;
  if (legend && room < 400) legend.columns = 1;
  for (const view of spec.vconcat || [spec]) {
    view.width = Math.min(view.width, room);
    const below = view.title && view.title.subtitle;
    if (below) view.title.subtitle = below.match(letters) || below;
  }
  const options = {actions: false, ast: true, renderer: "svg", config, tooltip: {theme: "custom"}};
  vegaEmbed(data.parentElement.querySelector("div"), spec, options);
}
