// The faults of an exploration: a tree of processes and calls, with a cell for each fault, and everything about one of them.

// letters of verdicts: those of findings are in upper case.
const findings = ["crashed", "hung", "lost", "broke"];

function letter(verdict) { return findings.includes(verdict) ? verdict[0].toUpperCase() : verdict[0]; }

// matches reports whether a text has all words, and none of those with a minus.
function matches(words, text) {
  return words.every(w => w.length > 1 && w[0] === "-" ? !text.includes(w.slice(1)) : text.includes(w));
}

class Explored {
  constructor(cells) {
    this.cells = cells;
    this.texts = cells.map(c => [c.fault, c.kind, c.verdict, c.why, c.output].join(" ").toLowerCase());
    this.verdict = "";
    this.process = "";
    this.words = [];
    this.chosen = -1;
    this.build();
    this.listen();
    this.filter();
    const first = cells.findIndex(c => findings.includes(c.verdict));
    if (cells.length) this.choose(Math.max(first, 0));
  }

  // build makes the tree, and the list of processes.
  build() {
    const processes = new Map();
    this.buttons = this.cells.map((c, i) => {
      const b = make("button", "cell " + c.verdict, letter(c.verdict));
      b.type = "button";
      b.dataset.i = i;
      b.title = c.verdict + ": " + c.fault;
      if (!processes.has(c.process)) processes.set(c.process, new Map());
      const sites = processes.get(c.process), key = c.kind + "\n" + c.what;
      if (!sites.has(key)) sites.set(key, []);
      sites.get(key).push([c, b]);
      return b;
    });
    this.sections = [];
    for (const [name, sites] of processes) {
      const section = make("section", "");
      let n = 0, found = 0;
      const rows = [];
      for (const all of sites.values()) {
        const c = all[0][0], cells = make("div", "cells", ...all.map(([, b]) => b));
        rows.push(make("div", "site", make("span", "kind", c.kind), make("span", "what", c.what, make("span", "of", " " + Math.max(...all.map(([c]) => c.of)))), cells));
        n += all.length;
        found += all.filter(([c]) => findings.includes(c.verdict)).length;
      }
      const counted = plain(n, "fault") + (found ? ", " + plain(found, "finding") : "");
      section.append(make("h3", "", name + " ", make("span", "", counted)), ...rows);
      this.sections.push([name, section]);
      const b = make("button", "", make("b", "", name), make("span", "", counted));
      b.type = "button";
      b.dataset.process = name;
      byId("processes").append(make("li", "", b));
    }
    byId("tree").append(...this.sections.map(([, s]) => s));
    if (!this.cells.length) byId("tree").append(make("p", "none", "No fault was tried."));
  }

  listen() {
    byId("tree").onclick = e => {
      const b = e.target.closest("button.cell");
      if (b) this.choose(Number(b.dataset.i));
    };
    byId("verdicts").onclick = e => {
      const b = e.target.closest("button");
      if (b) this.select(b.dataset.verdict === this.verdict ? "" : b.dataset.verdict, this.process);
    };
    byId("processes").onclick = e => {
      const b = e.target.closest("button");
      if (b) this.select(this.verdict, b.dataset.process === this.process ? "" : b.dataset.process);
    };
    byId("filter").oninput = () => {
      this.words = byId("filter").value.toLowerCase().split(/\s+/).filter(w => w);
      this.filter();
    };
    document.onkeydown = e => this.key(e);
  }

  select(verdict, process) {
    this.verdict = verdict;
    this.process = process;
    this.filter();
  }

  // filter hides what is not wanted.
  filter() {
    let n = 0;
    this.cells.forEach((c, i) => {
      const shown = (!this.verdict || c.verdict === this.verdict) && (!this.process || c.process === this.process) && matches(this.words, this.texts[i]);
      this.buttons[i].hidden = !shown;
      if (shown) n++;
    });
    for (const row of document.querySelectorAll(".site")) row.hidden = !row.querySelector(".cell:not([hidden])");
    for (const [, s] of this.sections) s.hidden = !s.querySelector(".site:not([hidden])");
    for (const b of document.querySelectorAll("#verdicts button")) b.classList.toggle("chosen", b.dataset.verdict === this.verdict);
    for (const b of document.querySelectorAll("#processes button")) b.classList.toggle("chosen", b.dataset.process === this.process);
    byId("count").textContent = n === this.cells.length ? plain(n, "fault") : n + " of " + plain(this.cells.length, "fault");
  }

  // choose shows everything about a fault.
  choose(i) {
    this.buttons[this.chosen]?.classList.remove("chosen");
    this.chosen = i;
    this.buttons[i].classList.add("chosen");
    const c = this.cells[i], parts = [make("h3", "", c.fault)];
    parts.push(make("p", "", make("i", "cell " + c.verdict, letter(c.verdict)), make("b", "", c.verdict), c.why ? ": " + c.why : ""));
    parts.push(make("p", "none", "Exit code " + c.code + ", after " + duration(c.milliseconds * 1e6)));
    for (const [title, text] of [["Where its threads were", c.stacks], ["The end of its output", c.output], ["To see it again", c.again]]) {
      if (text) parts.push(make("h4", "", title), make("pre", "", text));
    }
    byId("details").replaceChildren(...parts);
    byId("details").scrollTop = 0;
    byId("details").hidden = false;
  }

  // walk chooses the next fault that is shown, in a direction; only findings if that is wanted.
  walk(by, wanted) {
    const inTree = [...document.querySelectorAll("#tree .cell:not([hidden])")];
    let at = inTree.indexOf(this.buttons[this.chosen]);
    for (at += by; at >= 0 && at < inTree.length; at += by) {
      const i = Number(inTree[at].dataset.i);
      if (wanted && !findings.includes(this.cells[i].verdict)) continue;
      this.choose(i);
      inTree[at].scrollIntoView({block: "nearest"});
      return;
    }
  }

  key(e) {
    if (e.target.matches("input[type=search]")) {
      if (e.key === "Escape") e.target.blur();
      return;
    }
    if (e.ctrlKey || e.metaKey || e.altKey) return;
    const keys = {
      ArrowRight: () => this.walk(1), ArrowLeft: () => this.walk(-1), n: () => this.walk(1, true), N: () => this.walk(-1, true), "/": () => byId("filter").focus(),
    };
    if (!keys[e.key]) return;
    e.preventDefault();
    keys[e.key]();
  }
}

async function main() {
  const data = byId("data"), text = data.textContent;
  data.remove();
  try {
    const buffer = await unpack(text);
    new Explored(JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4))).cells);
    document.documentElement.dataset.ready = "yes";
  } catch (err) {
    byId("failure").textContent = "The faults cannot be shown: " + err;
    byId("failure").hidden = false;
  }
}

main();
