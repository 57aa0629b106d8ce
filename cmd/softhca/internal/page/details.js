// Everything about one packet, and where both queue pairs are after it.

const phases = [
  ["no request yet", ""], ["everything was answered", ""], ["waits for answers", ""], ["a NAK asked for a missing packet", "warn"],
  ["waits, as an RNR NAK told it", "warn"], ["sends again", "warn"], ["sent again after silence, hears nothing", "bad"], ["a NAK refused its request", "bad"],
];

class Details {
  constructor(store) {
    this.store = store;
    this.box = byId("details");
  }

  show(i) {
    const s = this.store, parts = [];
    parts.push(make("h3", "", "#" + s.record[i] + " " + (s.management[i] ? s.management[i].message || s.name(i) : s.name(i))));
    this.found(i, parts);
    if (s.conversation[i]) this.pair(i, parts);
    this.section(parts, "Packet", [
      ["Time", seconds(s.time[i]) + " s"], ["Source", s.addrs[s.src[i]] + ", port " + s.port[i]], ["Destination", s.addrs[s.dst[i]]],
      ["Conversation", s.conversation[i] || "none that is listed"], ["Traffic class, TTL", "0x" + hex(s.tclass[i], 2) + ", " + s.ttl[i]],
      ["IP identification", "0x" + hex(s.id[i], 4)], ["UDP payload", plain(s.length[i], "byte")],
      ...(s.size[i] >= 0 ? [["RDMA payload", plain(s.size[i], "byte")]] : []),
      ["ICRC", s.marks[i] & mark.wrongICRC ? "wrong" : s.marks[i] & mark.cutOff ? "not captured" : s.marks[i] & mark.malformed ? "none" : "right"],
    ]);
    if (s.management[i]) this.management(parts, "Management datagram", s.management[i]);
    this.headers(i, parts);
    this.bytes(i, parts);
    this.box.replaceChildren(...parts);
    this.box.scrollTop = 0;
    this.box.hidden = false;
  }

  section(parts, title, rows) {
    const body = make("tbody");
    for (const [name, value] of rows) body.append(make("tr", "", make("td", "", name), make("td", "", String(value))));
    parts.push(make("h4", "", title), make("table", "", body));
  }

  // found tells what was found in the packet, and what was written beside it.
  found(i, parts) {
    const s = this.store, here = s.findings.filter(f => f.first_record === s.record[i]);
    const rule = s.finding[i] && s.names[s.finding[i]];
    if (rule && !here.some(f => f.rule === rule)) here.push({rule, severity: s.rules[rule].severity, title: s.rules[rule].title, detail: ""});
    for (const f of here) {
      const pages = [s.rules[f.rule].page, ...(f.error_pages ?? [])].map(page => this.link(page));
      parts.push(make("div", "found " + f.severity, make("b", "", f.title), make("div", "", f.rule + (f.detail ? ": " + f.detail : "")), make("div", "pages", ...pages)));
    }
    const tags = s.tags(i);
    if (tags.length && !here.length) parts.push(make("div", "found", tags.join(", ")));
    if (s.comment[i]) parts.push(make("div", "found", "comment in the file: " + s.comments[s.comment[i]]));
  }

  // link leads to a page of the documentation.
  link(page) {
    const a = make("a", "", page.replace(/^docs\//, ""));
    a.href = this.store.docs + page;
    a.target = "_blank";
    a.rel = "noopener noreferrer";
    return a;
  }

  // pair shows both queue pairs.
  pair(i, parts) {
    const s = this.store, c = s.conversations[s.conversation[i] - 1], cards = make("div", "pair");
    if (c.service === "CM") return;
    const sides = [
      {phase: s.phaseA[i], next: s.nextA[i], una: s.unaA[i], messages: s.messagesA[i], msn: s.msnA[i]},
      {phase: s.phaseB[i], next: s.nextB[i], una: s.unaB[i], messages: s.messagesB[i], msn: s.msnB[i]},
    ];
    for (const side of [0, 1]) cards.append(this.card(i, side, sides[side], sides[1 - side]));
    parts.push(make("h4", "", "Queue pairs after this packet, as far as packets tell"), cards);
  }

  card(i, side, own, peer) {
    const s = this.store, id = s.conversation[i], service = s.conversations[id - 1].service;
    const [words, shade] = phases[own.phase], card = make("div", "card", make("b", "", (side ? "B " : "A ") + s.end(id, side)));
    const fatal = s.findings.find(f => f.conversation === id && f.severity === "failed" && f.first_record <= s.record[i] && s.rules[f.rule].requester);
    const ended = own.phase === 7 || fatal && own.phase > 1;
    card.append(make("p", "state " + (ended ? "bad" : shade), ended ? "ERR" + (fatal ? ": " + s.rules[fatal.rule].requester : "") : "RTS, or takes requests"));
    const line = (name, value) => card.append(make("p", "", name + " ", make("span", "", value)));
    if (service === "UD") return card;
    if (own.phase) {
      line("requester:", words);
      line("next PSN", "0x" + hex(own.next, 6));
      if (service !== "UC") {
        line("first unacknowledged", "0x" + hex(own.una, 6));
        line("in flight", count(own.next - own.una & 0xffffff, "PSN") + ", " + count(own.messages, "message"));
      }
    }
    if (peer.phase && service !== "UC") line("responder: acknowledged up to", "0x" + hex(peer.una, 6) + (peer.msn >= 0 ? ", MSN " + peer.msn : ""));
    if (peer.phase && service === "UC") line("receiver: expects PSN", "0x" + hex(peer.next, 6));
    return card;
  }

  headers(i, parts) {
    const s = this.store, o = s.operations[s.op[i]];
    let at = 0;
    for (const k of [0, ...(o ? o.headers : [])]) {
      const h = s.headers[k];
      if (at + h.bytes > s.head[i]) return;
      this.section(parts, h.name, h.fields.map(f => [f.name, this.value(f, this.bits(s.at[i] + at, f.at, f.bits))]));
      at += h.bytes;
    }
  }

  // bits returns a field as a whole number of any size.
  bits(at, first, n) {
    let v = 0n;
    for (let k = first; k < first + n; k++) v = v << 1n | BigInt(this.store.heads[at + (k >> 3)] >> 7 - (k & 7) & 1);
    return v;
  }

  value(f, v) {
    const s = this.store;
    switch (f.style) {
      case "hex": return "0x" + hex(v, Math.ceil(f.bits / 4));
      case "flag": return v ? "yes" : "no";
      case "opcode": return (s.operations[Number(v)]?.name ?? "not assigned") + " (0x" + hex(v, 2) + ")";
      case "bytes": return v + " (" + amount(Number(v)) + ")";
      case "syndrome": {
        const rnr = (Number(v) & 0xe0) === 0x20 ? ", " + s.timers[Number(v) & 31] : "";
        return s.syndromes[Number(v)] + rnr + " (0x" + hex(v, 2) + ")";
      }
      default: return v;
    }
  }

  // management shows the fields of a management datagram and of its message.
  management(parts, title, fields) {
    const rows = [], inner = [];
    for (const [name, value] of Object.entries(fields)) {
      if (value !== null && typeof value === "object") inner.push([name, value]); else if (value !== "") rows.push([name.replace(/_/g, " "), value]);
    }
    this.section(parts, title, rows);
    for (const [name, value] of inner) this.management(parts, name.replace(/_/g, " "), value);
  }

  // bytes shows the headers as they are on the wire.
  bytes(i, parts) {
    const s = this.store, lines = [];
    for (let k = 0; k < s.head[i]; k += 12) {
      const line = [];
      for (let j = k; j < Math.min(k + 12, s.head[i]); j++) line.push(hex(s.heads[s.at[i] + j], 2));
      lines.push(hex(k, 4) + "  " + line.join(" "));
    }
    parts.push(make("h4", "", "Bytes"), make("pre", "", lines.join("\n")));
  }
}
