// What belongs together: lists, plots, ladder and details show the same packet.

// matches reports whether a text has all words, and none of those with a minus.
function matches(words, text) {
  return words.every(w => w.length > 1 && w[0] === "-" ? !text.includes(w.slice(1)) : text.includes(w));
}

class Page {
  constructor(store) {
    this.store = store;
    this.conversation = -1;
    this.side = 0;
    this.words = [];
    this.plot = new Plot(store, i => this.pick(i, true));
    this.details = new Details(store);
    for (const id of ["plots", "packets"]) byId(id).hidden = store.n === 0;
    this.ladder = new Ladder(store, i => this.pick(i, false));
    this.messages = new Messages(store, record => this.open(record));
    this.ladder.list.onscroll = (first, last) => this.inSight(first, last);
    this.listen();
    this.start();
  }

  // start shows the cause, or the largest conversation.
  start() {
    const s = this.store, cause = s.findings.find(f => f.rule === s.cause && f.first_record === s.record_of_cause);
    let most = null;
    for (const c of s.conversations) if (c.service !== "CM" && (!most || c.packets > most.packets)) most = c;
    this.choose(cause ? cause.conversation : s.conversations.length > 8 || !most ? 0 : most.id);
    this.tab("ladder");
    if (s.n) this.open(s.record_of_cause || s.record[0]);
  }

  // choose shows one conversation, or all packets.
  choose(conversation) {
    const s = this.store, changed = this.conversation !== conversation;
    this.conversation = conversation;
    for (const b of document.querySelectorAll("#conversations button")) b.classList.toggle("chosen", Number(b.dataset.conversation) === conversation);
    if (changed && conversation) {
      const asked = [0, 0];
      for (let i = 0; i < s.n; i++) if (s.conversation[i] === conversation && !s.response[i]) asked[s.side[i]] += 1 + s.marks[i];
      this.side = asked[1] > asked[0] ? 1 : 0;
    }
    byId("end-a").textContent = conversation ? "A  " + s.end(conversation, 0) : "who was heard first";
    byId("end-b").textContent = conversation ? s.end(conversation, 1) + "  B" : "its peer";
    this.replot();
    this.filter();
  }

  replot() {
    for (const b of byId("direction").children) b.classList.toggle("chosen", Number(b.dataset.side) === this.side);
    this.plot.show(this.conversation, this.side);
  }

  // filter shows the packets, or messages, that are wanted.
  filter() {
    const s = this.store, items = [], only = byId("only").checked;
    this.words = byId("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
    let all = 0;
    for (let i = 0; i < s.n; i++) {
      if (this.conversation && s.conversation[i] !== this.conversation) continue;
      all++;
      if (only && !s.marked(i) || this.words.length && !matches(this.words, s.text(i))) continue;
      items.push(i);
    }
    this.ladder.show(items);
    const listed = this.messages.show(this.conversation, this.words);
    const more = s.unlisted_messages ? ", " + s.unlisted_messages.toLocaleString("en") + " more are not listed" : "";
    byId("count").textContent = this.tabbed === "messages" ? count(listed, "message") + more :
      items.length === all ? count(all, "packet") : items.length.toLocaleString("en") + " of " + count(all, "packet");
  }

  // pick selects a packet.
  pick(i, center) {
    this.selected = this.plot.selected = i;
    this.ladder.choose(i, center);
    this.details.show(i);
    this.plot.draw();
  }

  // open selects the packet of a record, also if the list is of something else.
  open(record) {
    const s = this.store, i = s.indexOf(record);
    if (i < 0) return;
    this.tab("ladder");
    if (this.conversation && s.conversation[i] !== this.conversation) this.choose(s.conversation[i]);
    if (this.ladder.position(i) < 0) {
      byId("filter").value = "";
      byId("only").checked = false;
      this.filter();
    }
    this.pick(i, true);
  }

  // inSight shades the time in the plots that the ladder shows.
  inSight(first, last) {
    const s = this.store, items = this.ladder.list.items;
    this.plot.seen = items.length ? [s.time[items[Math.min(first, items.length - 1)]], s.time[items[Math.max(0, last - 1)]]] : null;
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      this.plot.draw();
      this.ladder.drawMap();
    });
  }

  tab(name) {
    this.tabbed = name;
    for (const b of byId("tabs").children) b.classList.toggle("chosen", b.dataset.tab === name);
    byId("ladder").hidden = name !== "ladder";
    byId("messages").hidden = name !== "messages";
    byId("hunt").hidden = name === "messages"; // it is about packets
    this.filter();
  }

  // step goes to the next hit of the search or, without one, to what is marked.
  step(by) {
    const s = this.store, text = byId("search").value.trim().toLowerCase();
    const i = this.ladder.after(by, text ? k => s.text(k).includes(text) : k => s.marked(k));
    if (i >= 0) this.pick(i, false);
  }

  // walk goes some rows on.
  walk(rows) {
    const items = this.ladder.list.items, k = this.ladder.position(this.selected);
    if (items.length) this.pick(items[Math.min(items.length - 1, Math.max(0, k + rows))], false);
  }

  listen() {
    const on = (id, what, f) => byId(id).addEventListener(what, f);
    on("fold", "click", () => { byId("why").classList.toggle("folded"); });
    on("findings", "click", e => {
      const b = e.target.closest("button");
      if (!b) return;
      if (Number(b.dataset.conversation)) this.choose(Number(b.dataset.conversation)); else this.choose(0);
      this.open(Number(b.dataset.record));
    });
    on("conversations", "click", e => {
      const b = e.target.closest("button");
      if (b) this.choose(Number(b.dataset.conversation));
    });
    on("direction", "click", e => {
      if (!e.target.dataset.side) return;
      this.side = Number(e.target.dataset.side);
      this.replot();
    });
    on("tabs", "click", e => { if (e.target.dataset.tab) this.tab(e.target.dataset.tab); });
    on("filter", "input", () => this.filter());
    on("only", "change", () => this.filter());
    on("search", "input", () => {
      this.ladder.hits = byId("search").value.trim().toLowerCase();
      this.ladder.list.refresh();
    });
    on("search", "keydown", e => { if (e.key === "Enter") this.step(e.shiftKey ? -1 : 1); });
    on("previous", "click", () => this.step(-1));
    on("next", "click", () => this.step(1));
    on("smaller", "click", () => this.ladder.zoom(-1));
    on("larger", "click", () => this.ladder.zoom(1));
    on("zoom-in", "click", () => this.plot.zoom(.5, this.plot.chosen()));
    on("zoom-out", "click", () => this.plot.zoom(2, this.plot.chosen()));
    on("zoom-all", "click", () => this.plot.reset());
    document.addEventListener("keydown", e => this.key(e));
    window.addEventListener("resize", () => this.plot.draw());
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.repaint());
    window.addEventListener("beforeprint", () => { document.documentElement.classList.add("paper"); this.repaint(); });
    window.addEventListener("afterprint", () => { document.documentElement.classList.remove("paper"); this.repaint(); });
  }

  repaint() {
    this.plot.draw();
    this.ladder.drawMap();
  }

  key(e) {
    if (e.target.matches("input[type=search]")) {
      if (e.key === "Escape") e.target.blur();
      return;
    }
    if (e.ctrlKey || e.metaKey || e.altKey) return;
    const page = Math.max(1, this.ladder.list.range()[1] - this.ladder.list.range()[0] - 2);
    const keys = {
      ArrowDown: () => this.walk(1), ArrowUp: () => this.walk(-1), PageDown: () => this.walk(page), PageUp: () => this.walk(-page),
      Home: () => this.walk(-Infinity), End: () => this.walk(Infinity), n: () => this.step(1), N: () => this.step(-1), "/": () => byId("filter").focus(),
    };
    if (this.tabbed === "messages") {
      const rows = Math.max(1, this.messages.list.range()[1] - this.messages.list.range()[0] - 2), walk = n => () => this.messages.walk(n);
      Object.assign(keys, {
        ArrowDown: walk(1), ArrowUp: walk(-1), PageDown: walk(rows), PageUp: walk(-rows), Home: walk(-Infinity), End: walk(Infinity), n: null, N: null,
      });
      if (!e.target.closest("button, a, input")) keys.Enter = () => this.messages.open();
    }
    if (!keys[e.key]) return;
    e.preventDefault();
    keys[e.key]();
  }
}

async function main() {
  const data = byId("data"), text = data.textContent;
  data.remove();
  try {
    new Page(new Store(await unpack(text)));
    document.documentElement.dataset.ready = "yes";
  } catch (err) {
    byId("failure").textContent = "The packets cannot be shown: " + err;
    byId("failure").hidden = false;
  }
}

main();
