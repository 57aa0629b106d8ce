// The ladder: a list of which only the rows in sight are there.

// lineHeight is that of the second line of a row and of those after it.
const lineHeight = 16;

// narrow is the width of a list below which a row has its text below its numbers.
const narrow = 620;

// List shows rows as high as their text needs, as many as are in sight.
class List {
  // build returns the row of an item, or makes it anew. lines returns how many lines the
  // text of an item takes in a list of a width, of characters of a width.
  constructor(view, build, lines) {
    this.scroll = view.querySelector(".scroll");
    this.space = view.querySelector(".space");
    this.view = view;
    this.build = build;
    this.lines = lines;
    this.items = [];
    this.rows = new Map();
    this.height = 22; // of a row with one line
    this.tops = new Float64Array(1); // where each row begins, and where the last one ends
    this.width = 0;
    this.onscroll = () => {};
    this.scroll.addEventListener("scroll", () => this.draw());
    new ResizeObserver(() => this.widen()).observe(this.scroll);
  }

  set(items) {
    this.items = items;
    this.measure();
    this.refresh();
  }

  // widen draws the list in the width that it has now.
  widen() {
    if (this.scroll.clientWidth === this.width) return this.draw();
    const middle = this.middle();
    this.measure();
    this.refresh();
    this.scrollTo(middle);
  }

  // measure computes where rows begin.
  measure() {
    this.width = this.scroll.clientWidth;
    this.view.classList.toggle("narrow", this.width < narrow);
    const character = characterWidth(), small = this.height < 14;
    this.tops = new Float64Array(this.items.length + 1);
    for (let k = 0; k < this.items.length; k++) {
      const more = small ? 0 : this.lines(this.items[k], this.width, character) - 1;
      this.tops[k + 1] = this.tops[k] + this.height + more * lineHeight;
    }
  }

  // at returns the row at a height.
  at(top) {
    let low = 0, high = this.items.length;
    while (low < high) {
      const middle = low + high + 1 >> 1;
      if (this.tops[middle] <= top) low = middle; else high = middle - 1;
    }
    return low;
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
    this.measure();
    this.refresh();
    this.scrollTo(middle);
  }

  // range returns the rows in sight.
  range() {
    const top = this.scroll.scrollTop;
    return [this.at(top), Math.min(this.items.length, this.at(top + this.scroll.clientHeight) + 1)];
  }

  middle() {
    const [first, last] = this.range();
    return first + last >> 1;
  }

  draw() {
    this.space.style.height = this.tops[this.items.length] + "px";
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
      row.style.top = this.tops[k] + "px";
      row.style.height = this.tops[k + 1] - this.tops[k] + "px";
      this.space.append(row);
      this.rows.set(k, row);
    }
    this.onscroll(first, last);
  }

  // scrollTo brings a row to the middle.
  scrollTo(k) {
    k = Math.max(0, Math.min(k, this.items.length - 1));
    this.scroll.scrollTop = Math.max(0, (this.tops[k] + (this.tops[k + 1] || 0)) / 2 - this.scroll.clientHeight / 2);
    this.draw();
  }

  // reveal scrolls no more than is needed to see a row.
  reveal(k) {
    const s = this.scroll;
    if (this.tops[k] < s.scrollTop || this.tops[k + 1] > s.scrollTop + s.clientHeight) this.scrollTo(k);
  }
}

// characterWidth returns the width of a character of the rows, all of which are equal.
function characterWidth() {
  const g = document.createElement("canvas").getContext("2d");
  g.font = "11.5px " + getComputedStyle(document.documentElement).getPropertyValue("--mono");
  return g.measureText("0".repeat(100)).width / 100;
}

// wrapped returns how many lines a text takes that is broken between words, and words that
// are longer than a line anywhere.
function wrapped(text, columns) {
  columns = Math.max(1, Math.floor(columns));
  if (text.length <= columns) return 1;
  let lines = 1, at = 0;
  for (const word of text.split(" ")) {
    if (at && at + 1 + word.length > columns) {
      lines++;
      at = 0;
    }
    at += (at ? 1 : 0) + word.length;
    if (at > columns) {
      lines += Math.ceil(at / columns) - 1;
      at = at % columns || columns;
    }
  }
  return lines;
}

// rowHeights are the sizes that one can zoom to.
const rowHeights = [3, 5, 9, 16, 22, 30];

class Ladder {
  constructor(store, pick) {
    this.store = store;
    this.selected = -1;
    this.hits = "";
    this.size = 4;
    this.list = new List(byId("ladder"), (i, before) => this.row(i, before), (i, width, character) => this.lines(i, width, character));
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
    const last = items.length ? items[items.length - 1] : 0, s = this.store;
    this.columns = [Math.max(6, String(s.record[last]).length), seconds(s.time[last]).length + 13];
    const character = characterWidth();
    this.list.view.style.setProperty("--n", this.columns[0] * character + "px");
    this.list.view.style.setProperty("--t", this.columns[1] * character + "px");
    this.list.set(items);
    this.drawMap();
  }

  zoom(by) {
    this.size = Math.min(rowHeights.length - 1, Math.max(0, this.size + by));
    this.list.resize(rowHeights[this.size]);
  }

  // lines returns how many lines the text of a packet takes between its two ends.
  lines(i, width, character) {
    const s = this.store, below = width < narrow;
    const text = [s.words(i), ...s.tags(i).map(tag => "_".repeat(tag.length + 4))].join(" ");
    const beside = below ? 0 : (this.columns[0] + this.columns[1]) * character + 10;
    return (below ? 1 : 0) + wrapped(text, (width - beside - 92) / character);
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
