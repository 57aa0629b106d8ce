// The ladder: a list of which only the rows in sight are there.

// List shows rows of a height, as many as are in sight.
class List {
  constructor(view, build) {
    this.scroll = view.querySelector(".scroll");
    this.space = view.querySelector(".space");
    this.build = build; // returns the row of an item, or makes it anew
    this.items = [];
    this.rows = new Map();
    this.height = 22;
    this.onscroll = () => {};
    this.scroll.addEventListener("scroll", () => this.draw());
    new ResizeObserver(() => this.draw()).observe(this.scroll);
  }

  set(items) {
    this.items = items;
    this.refresh();
  }

  // refresh builds all rows in sight anew.
  refresh() {
    this.rows.forEach(row => row.remove());
    this.rows.clear();
    this.draw();
  }

  resize(height) {
    const middle = this.middle();
    this.height = height;
    this.scroll.classList.toggle("small", height < 14);
    this.scroll.style.setProperty("--row", height + "px");
    this.refresh();
    this.scrollTo(middle);
  }

  // range returns the rows in sight.
  range() {
    const first = Math.floor(this.scroll.scrollTop / this.height);
    return [first, Math.min(this.items.length, first + Math.ceil(this.scroll.clientHeight / this.height) + 1)];
  }

  middle() {
    const [first, last] = this.range();
    return first + last >> 1;
  }

  draw() {
    this.space.style.height = this.items.length * this.height + "px";
    const [first, last] = this.range();
    for (const [k, row] of this.rows) {
      if (k < first || k >= last) {
        row.remove();
        this.rows.delete(k);
      }
    }
    for (let k = first; k < last; k++) {
      if (this.rows.has(k)) continue;
      const row = this.build(this.items[k], k > 0 ? this.items[k - 1] : -1);
      row.style.top = k * this.height + "px";
      this.space.append(row);
      this.rows.set(k, row);
    }
    this.onscroll(first, last);
  }

  // scrollTo brings a row to the middle.
  scrollTo(k) {
    this.scroll.scrollTop = Math.max(0, (k + .5) * this.height - this.scroll.clientHeight / 2);
    this.draw();
  }

  // reveal scrolls no more than is needed to see a row.
  reveal(k) {
    const top = k * this.height, s = this.scroll;
    if (top < s.scrollTop || top + this.height > s.scrollTop + s.clientHeight) this.scrollTo(k);
  }
}

// rowHeights are the sizes that one can zoom to.
const rowHeights = [3, 5, 9, 16, 22, 30];

class Ladder {
  constructor(store, pick) {
    this.store = store;
    this.selected = -1;
    this.hits = "";
    this.size = 4;
    this.list = new List(byId("ladder"), (i, before) => this.row(i, before));
    this.map = byId("ladder").querySelector(".map");
    this.list.scroll.addEventListener("click", e => {
      const row = e.target.closest(".row");
      if (row) pick(Number(row.dataset.i));
    });
    this.map.addEventListener("pointerdown", e => {
      const r = this.map.getBoundingClientRect();
      this.list.scrollTo(Math.floor((e.clientY - r.top) / this.unit(r.height)));
    });
    new ResizeObserver(() => this.drawMap()).observe(this.map.parentElement);
  }

  // show shows packets, by their indexes.
  show(items) {
    this.list.set(items);
    this.drawMap();
  }

  zoom(by) {
    this.size = Math.min(rowHeights.length - 1, Math.max(0, this.size + by));
    this.list.resize(rowHeights[this.size]);
  }

  row(i, before) {
    const s = this.store, m = s.marks[i];
    const name = ["row", s.side[i] ? "to-a" : "to-b", s.kind(i)];
    for (const [bit, word] of [[mark.repeated, "again"], [mark.filled, "fill"], [mark.lost, "lost"], [mark.lost | mark.changed, "rule"], [mark.wrongICRC | mark.malformed, "bad"]]) {
      if (m & bit) name.push(word);
    }
    if (i === this.selected) name.push("chosen");
    if (this.hits && s.text(i).includes(this.hits)) name.push("hit");
    const words = make("span", "words", s.words(i));
    for (const tag of s.tags(i)) words.append(make("span", "tag", tag));
    const since = before >= 0 ? s.time[i] - s.time[before] : 0;
    const gap = since >= 1e7 ? make("span", "gap", "+" + duration(since)) : before < 0 || !since ? "" : "+" + duration(since);
    const row = make("div", name.join(" "), make("span", "n", String(s.record[i])), make("span", "t", seconds(s.time[i]) + " ", gap), make("span", "lane", words));
    row.dataset.i = i;
    row.title = s.words(i); // of which a narrow window shows a part
    row.setAttribute("role", "option");
    return row;
  }

  // choose marks a packet, and shows it if it is in the list.
  choose(i, center) {
    this.selected = i;
    this.list.refresh();
    const k = this.position(i);
    if (k >= 0) center ? this.list.scrollTo(k) : this.list.reveal(k);
  }

  // position returns the row of a packet, or -1. The items ascend.
  position(i) {
    const items = this.list.items;
    let low = 0, high = items.length;
    while (low < high) {
      const middle = low + high >> 1;
      if (items[middle] < i) low = middle + 1; else high = middle;
    }
    return items[low] === i ? low : -1;
  }

  // after returns the row behind (or before, with by -1) the selected packet that is
  // wanted.
  after(by, wanted) {
    const items = this.list.items;
    let k = this.position(this.selected);
    if (k < 0) k = by > 0 ? this.list.range()[0] - 1 : this.list.range()[0];
    for (k += by; k >= 0 && k < items.length; k += by) if (wanted(items[k])) return items[k];
    return -1;
  }

  // unit returns how much of the map's height a row takes.
  unit(height) { return Math.min(this.list.height, height / Math.max(1, this.list.items.length)); }

  // drawMap draws what is marked, of all packets in the list, and what is in sight.
  drawMap() {
    const scale = window.devicePixelRatio || 1, c = this.map, items = this.list.items, s = this.store;
    const height = c.parentElement.clientHeight;
    c.style.height = height + "px";
    c.width = 15 * scale;
    c.height = height * scale;
    const g = c.getContext("2d");
    g.scale(scale, scale);
    const colors = {bad: color("bad"), warn: color("warn"), seen: color("chosen")};
    const [first, last] = this.list.range(), unit = this.unit(height);
    g.fillStyle = colors.seen;
    if (last - first < items.length) g.fillRect(0, first * unit, 15, Math.max(3, (last - first) * unit));
    for (let k = 0; k < items.length; k++) {
      const i = items[k];
      if (!s.marked(i)) continue;
      const grave = s.marks[i] & (mark.repeated | mark.wrongICRC | mark.malformed | mark.lost) || s.kind(i) === "nak";
      g.fillStyle = grave ? colors.bad : colors.warn;
      g.fillRect(grave ? 8 : 3, k * unit, 4, Math.max(1, unit));
    }
  }
}
