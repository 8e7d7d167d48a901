// The page comes alive: what is drawn on it already is read anyway, without this.
(() => {
  const { make, fileName } = foretrace;
  const STARTS = {
    timeline: async (place, data) => {
      const bars = await foretrace.packedBars(data);
      const source = { ...data, resident: true, get: () => bars };
      if (!data.meetings) return foretrace.timeline(place, source);
      const told = make("div", { class: "component members", hidden: true });
      const membersOf = foretrace.membersOf(bars, data);
      const tell = (lane, time, i) => say(membersOf(i), lane);
      const timeline = foretrace.timeline(place, { ...source, tell });
      const say = foretrace.members(told, timeline.reach);
      place.after(told);
      return timeline;
    },
    tree: (place, data) => foretrace.tree(place, data),
    heat: (place, data) => foretrace.heat(place, data),
  };

  async function wake(figure) {
    const place = make("div", { class: `component ${figure.dataset.component}` });
    try {
      const data = JSON.parse(figure.querySelector("script").textContent);
      figure.append(place);
      figure.classList.add("live");
      foretrace[figure.id || `${figure.dataset.component}s`] = await STARTS[figure.dataset.component](place, data);
      figure.dataset.ready = "yes";
    } catch (error) {
      place.remove(); // the still figure stays
      figure.classList.remove("live");
      throw error;
    }
  }

  // No line begins with the unit of a number that ends the one before; commands stay as they are.
  function keepUnits(place) {
    const texts = document.createTreeWalker(place, NodeFilter.SHOW_TEXT);
    while (texts.nextNode())
      if (!texts.currentNode.parentElement.closest("code, pre"))
        texts.currentNode.data = texts.currentNode.data.replace(/(?<=\d) (?=%|[numµkMGT]?s\b)/g, "\u00a0");
  }
  document.querySelectorAll("p, li, dd").forEach(keepUnits);

  const sectionOf = (one) => one.closest("section")?.id ?? "";
  document.querySelectorAll("figure svg").forEach((svg) => svg.parentElement.closest("svg") || foretrace.plot(svg));
  document.querySelectorAll("figure:not([data-component])").forEach((figure, i) =>
    foretrace.saving(figure, fileName(document.title, sectionOf(figure), String(i + 1))));
  document.querySelectorAll("table").forEach((table, i) =>
    foretrace.table(table, fileName(document.title, sectionOf(table), String(i + 1))));
  const waking = [...document.querySelectorAll("figure[data-component]")];
  Promise.allSettled(waking.map(wake)).then((all) => {
    document.documentElement.dataset.alive = all.every((one) => one.status === "fulfilled") ? "yes" : "partly";
    for (const one of all) if (one.status === "rejected") console.error(one.reason);
  });
})();
