// Ranks of a collective: who came when, who waited for whom; each is gone to by its button.
(() => {
  const { make, quantity } = foretrace;

  // Fills a place, and answers with a function that tells of members:
  // {key, of, last, who, most, first, end, below, at: [{lane, rank, since, waits, last}]}, times in
  // s; `below` says which are in `at` where not all are.  The table stays while another rank of the
  // same one is chosen, and with it where the keyboard is.
  foretrace.members = (place, reach) => {
    const sentence = make("p"), rows = make("tbody");
    const heads = ["rank", "arrives after the first", "waits", ""].map((name) => make("th", {}, name));
    place.replaceChildren(make("h3", {}, "Its ranks"), sentence, make("div", { class: "table" },
      make("table", {}, make("thead", {}, make("tr", {}, ...heads)), rows)));
    let told = null;

    function says({ of, last, who, most, at, below }) {
      const when = most === 0 ? "All arrive at once." : last === 1
        ? `Rank ${who} arrives last; the others wait for it, up to ${quantity(most)}.`
        : `${last.toLocaleString("en")} arrive last, together; the others wait up to ${quantity(most)}.`;
      return `${of.toLocaleString("en")} ranks take part. ${when}`
        + (of > at.length ? ` Below are ${at.length.toLocaleString("en")} of them, those ${below}.` : "");
    }

    return (members, lane) => {
      place.hidden = !members.of;
      if (!members.of) return [];
      if (told !== members.key) {
        told = members.key;
        sentence.textContent = says(members);
        rows.replaceChildren(...members.at.map((one) => make("tr", { "data-lane": one.lane },
          make("th", { scope: "row" }, make("button", { type: "button", class: "to",
            onclick: () => reach(one.lane, one.start, one.end) }, `rank ${one.rank}`)),
          make("td", {}, quantity(one.since - members.first)), make("td", {}, one.waits ? quantity(one.waits) : "—"),
          make("td", {}, one.last && members.most ? "last" : ""))));
      }
      for (const row of rows.children)
        row.setAttribute("aria-current", String(Number(row.dataset.lane) === lane));
      return members.at;
    };
  };

  // Of a timeline whose bars are all here: the members of a bar's collective that are drawn.
  foretrace.membersOf = (bars, { kinds, rows }) => {
    const waiting = kinds.findIndex((kind) => kind.name === "waiting"), rankOf = new Map();
    let rank = "";
    for (const { name, lane } of rows)
      if (lane === undefined) rank = name.replace(/^rank /, "");
      else rankOf.set(lane, rank);
    return (i) => {
      const key = bars.met[i];
      if (key < 0) return { of: 0 };
      const { of, last, who, most } = bars.meetings, at = [];
      let start = 0;
      for (let k = 0; k < bars.lane.length; k++)
        if (bars.met[k] === key && bars.kind[k] !== waiting) {
          start = bars.start[k];
          at.push({ lane: bars.lane[k], rank: rankOf.get(bars.lane[k]), start, end: bars.end[k],
            since: start - bars.wait[k], waits: bars.wait[k], last: bars.cameLast[k] });
        }
      return { key, of: of[key], last: last[key], who: who[key], most: most[key],
        first: start - most[key], below: "that are drawn one by one", at };
    };
  };
})();
