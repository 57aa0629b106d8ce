// What programs asked for, message by message.

class Messages {
  constructor(store, pick) {
    this.store = store;
    this.pick = pick;
    this.at = -1; // the row that the keys have chosen
    this.list = new List(byId("messages"), m => this.row(m), Messages.lines);
    this.list.scroll.addEventListener("click", e => {
      const row = e.target.closest(".row");
      if (row) pick(Number(row.dataset.record));
    });
  }

  show(conversation, words) {
    this.at = -1;
    this.list.set(this.store.messages.filter(m => (!conversation || m.conversation === conversation) && matches(words, Messages.text(m).toLowerCase())));
    return this.list.items.length;
  }

  // walk chooses a row so many further on.
  walk(rows) {
    const n = this.list.items.length;
    if (!n) return;
    this.at = Math.min(n - 1, Math.max(0, this.at + rows));
    this.list.refresh();
    this.list.reveal(this.at);
  }

  // open shows the packets of the row that the keys have chosen.
  open() { if (this.at >= 0) this.pick(this.list.items[this.at].first_record); }

  static what(m) {
    const to = m.operation === "READ" ? " from " : " to ";
    return m.operation + " of " + amount(m.bytes) + (m.va ? to + m.va + " with R_Key 0x" + hex(m.rkey, 8) : "");
  }

  static became(m) {
    const again = m.packets_again ? ", " + count(m.packets_again, "packet") + " again" : "";
    switch (m.outcome) {
      case "completed": return "acknowledged after " + duration(m.took_ns) + again;
      case "refused": return "refused after " + duration(m.took_ns) + again;
      case "unanswered": return "no answer seen" + again;
      case "incomplete": return "a part is missing";
      default: return "sent; nothing answers";
    }
  }

  // asked returns what a side asks for.
  static asked(m) { return (m.from === "a" ? "A → B " : "B → A ") + Messages.what(m); }

  // lines returns how many lines a message takes.
  static lines(m, width, character) {
    if (width < narrow) return 1 + wrapped(Messages.asked(m), (width - 40) / character) + wrapped(Messages.became(m), (width - 40) / character);
    return Math.max(wrapped(Messages.asked(m), (width - 520) / character), wrapped(Messages.became(m), 190 / character));
  }

  static text(m) { return "#" + m.first_record + " " + Messages.what(m) + " " + Messages.became(m) + " " + m.outcome + " 0x" + hex(m.psn, 6); }

  row(m) {
    const cells = ["n:" + m.first_record, "t:" + seconds(m.at_ns), ":" + m.conversation, "asked:" + Messages.asked(m), ":0x" + hex(m.psn, 6)];
    const row = make("div", m === this.list.items[this.at] ? "row chosen" : "row", ...cells.map(c => make("span", c.slice(0, c.indexOf(":")), c.slice(c.indexOf(":") + 1))));
    row.append(make("span", "became " + (m.packets_again ? "slow" : m.outcome), Messages.became(m)));
    row.dataset.record = m.first_record;
    row.setAttribute("role", "option");
    return row;
  }
}
