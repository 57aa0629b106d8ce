// The packets: columns of numbers, and what follows from their headers.

const mark = {repeated: 1, filled: 2, wrongICRC: 4, malformed: 8, cutOff: 16, lost: 32, changed: 64};
const columnTypes = {u8: Uint8Array, u16: Uint16Array, u32: Uint32Array, i32: Int32Array};

// unpack returns the bytes that the page carries.
async function unpack(text) {
  const packed = atob(text.replace(/-/g, "+").replace(/_/g, "/"));
  const bytes = new Uint8Array(packed.length);
  for (let i = 0; i < packed.length; i++) bytes[i] = packed.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).arrayBuffer();
}

// Store is everything that the page knows.
class Store {
  constructor(buffer) {
    const length = new DataView(buffer).getUint32(0, true);
    Object.assign(this, JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length))));
    const width = {u8: 1, u16: 2, u32: 4, i32: 4};
    this.split(buffer, 4 + length, width);
    this.parse();
  }

  // split cuts the columns out of the buffer, and the heads, which follow them.
  split(buffer, at, width) {
    this.n = this.packets;
    for (const c of this.columns) {
      const size = this.n * width[c.type];
      this[c.name] = new columnTypes[c.type](buffer.slice(at, at + size));
      at += size;
    }
    this.heads = new Uint8Array(buffer, at);
  }

  // parse reads what is needed of every packet from its headers.
  parse() {
    const n = this.n;
    this.at = new Uint32Array(n);
    this.time = new Float64Array(n);
    this.op = new Uint8Array(n);
    this.psn = new Int32Array(n).fill(-1);
    this.size = new Int32Array(n).fill(-1);
    this.syndrome = new Int16Array(n).fill(-1);
    this.response = new Uint8Array(n);
    let at = 0;
    for (let i = 0; i < n; i++) {
      this.at[i] = at;
      this.time[i] = this.timeHigh[i] * 4294967296 + this.timeLow[i];
      const b = this.heads, length = this.head[i];
      if (length >= 12) {
        this.op[i] = b[at];
        this.psn[i] = b[at + 9] << 16 | b[at + 10] << 8 | b[at + 11];
        this.measure(i, at, length);
      }
      at += length;
    }
  }

  // measure finds the payload's size and the syndrome.
  measure(i, at, length) {
    const o = this.operations[this.op[i]];
    if (!o) return;
    this.response[i] = o.response ? 1 : 0;
    let size = 12;
    for (const h of o.headers) {
      if (this.headers[h].name === "AETH" && length >= size + 4) this.syndrome[i] = this.heads[at + size];
      size += this.headers[h].bytes;
    }
    if (this.marks[i] & mark.malformed) return;
    this.size[i] = Math.max(0, this.length[i] - size - 4 - (this.heads[at + 1] >> 4 & 3));
  }

  // name returns the operation of a packet.
  name(i) {
    const o = this.operations[this.op[i]];
    if (o) return o.name;
    return this.head[i] >= 12 ? "unknown opcode 0x" + hex(this.op[i], 2) : "no packet";
  }

  // kind returns what a packet is to those who look for something: request, response,
  // ack, nak, rnr or cm.
  kind(i) {
    if (this.management[i]) return "cm";
    const s = this.syndrome[i];
    if (s >= 0 && (s & 0xe0) === 0x60) return "nak";
    if (s >= 0 && (s & 0xe0) === 0x20) return "rnr";
    if (!this.response[i]) return "request";
    return this.operations[this.op[i]].kind === "ACK" ? "ack" : "response";
  }

  // marked reports whether there is something to say about a packet.
  marked(i) {
    const k = this.kind(i);
    return this.marks[i] !== 0 || this.finding[i] !== 0 || k === "nak" || k === "rnr";
  }

  // tags returns what is said about a packet in a word or two.
  tags(i) {
    const m = this.marks[i], all = [];
    if (m & mark.lost) all.push("lost by a rule");
    if (m & mark.changed) all.push("touched by a rule");
    if (m & mark.repeated) all.push("again");
    if (m & mark.filled) all.push("was missing");
    if (m & mark.wrongICRC) all.push("wrong ICRC");
    if (m & mark.malformed) all.push("malformed");
    if (m & mark.cutOff) all.push("cut off");
    return all;
  }

  // words returns a packet as a line of text.
  words(i) {
    if (this.description[i]) return this.description[i];
    let s = this.name(i);
    if (this.psn[i] >= 0) s += " psn 0x" + hex(this.psn[i], 6);
    if (this.syndrome[i] >= 0) s += " " + this.syndromes[this.syndrome[i]];
    if (this.size[i] > 0) s += " " + plain(this.size[i], "byte");
    return s;
  }

  // text returns what one can search for in a packet, in lower case.
  text(i) {
    const rule = this.finding[i] ? this.names[this.finding[i]] : "";
    return ("#" + this.record[i] + " " + this.words(i) + " " + this.addrs[this.src[i]] + " > " + this.addrs[this.dst[i]] + " " + this.kind(i) + " " +
      this.tags(i).join(" ") + " " + rule + " " + this.comments[this.comment[i]] + " qp 0x" + hex(this.target(i), 6)).toLowerCase();
  }

  // target returns the destination QP of a packet.
  target(i) {
    if (this.head[i] < 12) return 0;
    const b = this.heads, at = this.at[i];
    return b[at + 5] << 16 | b[at + 6] << 8 | b[at + 7];
  }

  // indexOf returns the packet of a record, or the one after it, or -1.
  indexOf(record) {
    let low = 0, high = this.n;
    while (low < high) {
      const middle = low + high >> 1;
      if (this.record[middle] < record) low = middle + 1; else high = middle;
    }
    return low < this.n ? low : -1;
  }

  // end returns an end of a conversation in words.
  end(conversation, side) {
    const c = this.conversations[conversation - 1];
    if (!c) return "";
    const e = side ? c.b : c.a;
    return e.addr + (e.qpn === null ? "" : " QP 0x" + hex(e.qpn, 6));
  }
}
