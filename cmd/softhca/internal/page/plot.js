// PSNs and throughput over time, of one conversation.

const left = 74, right = 12, below = 18;

class Plot {
  constructor(store, pick) {
    this.store = store;
    this.pick = pick; // is called with the packet that is clicked at
    this.psn = byId("psn");
    this.rate = byId("rate");
    this.tip = byId("tip");
    this.points = [];
    this.selected = -1;
    this.seen = null; // the times of the packets in the ladder
    this.listen();
  }

  // show shows the requests of a side of a conversation, 0 for all packets.
  show(conversation, side) {
    const s = this.store;
    this.side = side;
    this.all = [];
    this.points = [];
    const unwrap = {base: -1, last: 0};
    for (let i = 0; i < s.n; i++) {
      if (conversation && s.conversation[i] !== conversation) continue;
      this.all.push(i);
      if (!conversation || s.psn[i] < 0 || s.kind(i) === "cm") continue;
      if (s.response[i] ? s.side[i] === side : s.side[i] !== side) continue;
      this.points.push({i, t: s.time[i], y: Plot.height(unwrap, s.psn[i]), kind: this.kindOf(i)});
    }
    this.base = Math.max(0, unwrap.base);
    let [low, high] = [Infinity, -Infinity];
    for (const i of this.all) {
      low = Math.min(low, s.time[i]);
      high = Math.max(high, s.time[i]);
    }
    if (!(high > low)) [low, high] = [Math.min(low, 0) || 0, (high > -Infinity ? high : 0) + 1000];
    const pad = (high - low) * .02;
    this.whole = this.window = [low - pad, high + pad];
    this.psn.parentElement.hidden = !this.points.length;
    byId("direction").hidden = !this.points.length;
    byId("plotted").textContent = this.points.length ? "PSN over time" : "Throughput";
    this.draw();
  }

  // height returns a PSN without its wrapping around.
  static height(u, psn) {
    if (u.base < 0) u.base = psn;
    const here = u.base + u.last & 0xffffff;
    let d = psn - here & 0xffffff;
    if (d >= 0x800000) d -= 0x1000000;
    const y = u.last + d;
    if (Math.abs(d) < 0x10000 && d > 0) u.last = y;
    return y;
  }

  kindOf(i) {
    const s = this.store, k = s.kind(i), m = s.marks[i];
    if (m & (mark.wrongICRC | mark.malformed)) return "damaged";
    if (k !== "request") return k;
    if (m & mark.repeated) return "again";
    return m & mark.filled ? "filled" : "request";
  }

  colors() {
    return {
      request: color(this.side ? "b" : "a"), again: color("bad"), filled: color("warn"), ack: color("ok"), response: color(this.side ? "a" : "b"),
      nak: color("bad"), rnr: color("warn"), damaged: color("cm"), line: color("line"), faint: color("faint"), ink: color("ink"), chosen: color("chosen"),
    };
  }

  // legend says what the colors are, of what there is.
  legend() {
    const names = {
      request: "requests", again: "sent again", filled: "came late", ack: "acknowledged", response: "responses", nak: "NAK", rnr: "RNR NAK", damaged: "wrong ICRC",
    };
    const there = new Set(this.points.map(p => p.kind)), c = this.colors();
    byId("legend").replaceChildren(...Object.keys(names).filter(k => there.has(k)).map(k => {
      const dot = make("i", k === "nak" || k === "rnr" ? "wedge" : "");
      dot.style.background = c[k];
      return make("li", "", dot, names[k]);
    }));
  }

  draw() {
    this.legend();
    this.drawPSN();
    this.drawRate();
  }

  // begin clears a canvas and returns what to draw with.
  begin(canvas) {
    const scale = window.devicePixelRatio || 1, width = canvas.clientWidth, height = canvas.clientHeight;
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
    const g = canvas.getContext("2d");
    g.scale(scale, scale);
    g.clearRect(0, 0, width, height);
    g.font = "10.5px " + getComputedStyle(document.body).fontFamily;
    g.textBaseline = "middle";
    const [from, to] = this.window, plot = width - left - right;
    return {g, width, height, x: t => left + (t - from) / (to - from) * plot, c: this.colors()};
  }

  drawPSN() {
    if (!this.points.length) return;
    const {g, width, height, x, c} = this.begin(this.psn);
    const [from, to] = this.window, bottom = height - 6;
    let [low, high] = [Infinity, -Infinity];
    for (const p of this.points) {
      if (p.t < from || p.t > to) continue;
      low = Math.min(low, p.y);
      high = Math.max(high, p.y + 1);
    }
    if (!(high > low)) {
      g.fillStyle = c.faint;
      g.fillText("nothing in this part of the time", left + 10, height / 2);
      this.y = null;
      return;
    }
    const pad = Math.max(.6, (high - low) * .06);
    [low, high] = [low - pad, high + pad];
    const y = v => bottom - (v - low) / (high - low) * (bottom - 8);
    this.y = y;
    this.band(g, x, height, c);
    this.psnAxis(g, {low, high, y, width, c});
    this.dots(g, x, y, c);
    const chosen = this.points.find(p => p.i === this.selected);
    if (chosen) {
      g.strokeStyle = c.ink;
      g.lineWidth = 1.5;
      g.strokeRect(x(chosen.t) - 6, Plot.middle(chosen, y) - 6, 12, 12);
    }
  }

  // middle returns the height at which a packet is drawn.
  static middle(p, y) {
    switch (p.kind) {
      case "ack": return y(p.y + 1);
      case "nak": case "rnr": return y(p.y) - 5;
      default: return y(p.y + .5);
    }
  }

  // band shades the time that the ladder shows.
  band(g, x, height, c) {
    const [from, to] = this.window;
    if (!this.seen || document.documentElement.classList.contains("paper") || this.seen[1] - this.seen[0] > .9 * (to - from)) return;
    g.fillStyle = c.chosen;
    g.globalAlpha = .7;
    const a = Math.max(left, x(this.seen[0]));
    const b = Math.max(a + 2, x(this.seen[1]));
    g.fillRect(a, 0, b - a, height);
    g.globalAlpha = 1;
  }

  psnAxis(g, {low, high, y, width, c}) {
    const by = 2 ** Math.max(0, Math.ceil(Math.log2((high - low) / 4))); // round in hexadecimal
    g.textAlign = "right";
    g.lineWidth = 1;
    for (let v = Math.ceil((low + this.base) / by) * by - this.base; v <= high; v += by) {
      g.strokeStyle = c.line;
      g.beginPath();
      g.moveTo(left, Math.round(y(v)) + .5);
      g.lineTo(width - right, Math.round(y(v)) + .5);
      g.stroke();
      g.fillStyle = c.faint;
      g.fillText("0x" + hex(this.base + v + 0x1000000 & 0xffffff, 6), left - 7, y(v));
    }
  }

  // dots draws the packets: what was acknowledged as a stair, requests as bars of
  // one PSN, and what went wrong over them.
  dots(g, x, y, c) {
    g.save();
    g.beginPath();
    g.rect(left, 0, this.psn.clientWidth - left - right, this.psn.clientHeight);
    g.clip();
    g.strokeStyle = c.ack;
    g.lineWidth = 1.2;
    g.beginPath();
    let before = null;
    for (const p of this.points) {
      if (p.kind !== "ack") continue;
      if (before === null) g.moveTo(x(p.t), y(p.y + 1)); else { g.lineTo(x(p.t), y(before)); g.lineTo(x(p.t), y(p.y + 1)); }
      before = p.y + 1;
    }
    g.stroke();
    const bar = Math.max(2.5, y(0) - y(1)), [from, to] = this.window;
    for (const late of [false, true]) {
      let [lastX, lastY] = [-1, -1];
      for (const p of this.points) {
        if (p.t < from || p.t > to || p.kind === "ack" || ["request", "response"].includes(p.kind) === late) continue;
        const [px, py] = [x(p.t), y(p.y)];
        if (!late && Math.abs(px - lastX) < .5 && Math.abs(py - lastY) < .5) continue; // it would be drawn over itself
        [lastX, lastY] = [px, py];
        g.fillStyle = c[p.kind];
        Plot.dot(g, p.kind, px, py, bar);
      }
    }
    g.restore();
  }

  static dot(g, kind, x, y, bar) {
    switch (kind) {
      case "nak": case "rnr":
        g.beginPath();
        g.moveTo(x - 5, y - 9);
        g.lineTo(x + 5, y - 9);
        g.lineTo(x, y);
        g.fill();
        break;
      case "damaged":
        g.fillRect(x - 3, y - 3, 6, 6);
        break;
      case "again": case "filled":
        g.fillRect(x - 2, y - Math.max(bar, 5), 4, Math.max(bar, 5));
        break;
      default:
        g.fillRect(x - 1.2, y - bar, 2.4, bar);
    }
  }

  drawRate() {
    const {g, width, height, x, c} = this.begin(this.rate);
    const [from, to] = this.window, plot = width - left - right, bins = Math.max(1, Math.floor(plot / 5)), s = this.store;
    const sums = [new Float64Array(bins), new Float64Array(bins), new Float64Array(bins)];
    for (const i of this.all) {
      const k = Math.floor((s.time[i] - from) / (to - from) * bins);
      if (k < 0 || k >= bins || s.size[i] <= 0) continue;
      sums[s.marks[i] & (mark.repeated | mark.wrongICRC) ? 2 : s.side[i]][k] += s.size[i] * 8 / ((to - from) / bins / 1e9);
    }
    let most = 0;
    for (let k = 0; k < bins; k++) most = Math.max(most, sums[0][k] + sums[1][k] + sums[2][k]);
    const bottom = height - below, y = v => bottom - (most ? v / most : 0) * (bottom - 6);
    this.band(g, x, bottom, c);
    const fills = [color("a"), color("b"), c.again];
    for (let k = 0; k < bins; k++) {
      let v = 0;
      for (let part = 0; part < 3; part++) {
        if (!sums[part][k]) continue;
        g.fillStyle = fills[part];
        g.fillRect(left + k / bins * plot, y(v + sums[part][k]), Math.max(1, plot / bins - .5), y(v) - y(v + sums[part][k]));
        v += sums[part][k];
      }
    }
    g.fillStyle = c.faint;
    g.textAlign = "right";
    g.fillText(rate(most), left - 7, 10);
    g.fillText("0", left - 7, bottom - 2);
    this.timeAxis(g, x, {width, bottom, c});
  }

  timeAxis(g, x, {width, bottom, c}) {
    const [from, to] = this.window, by = step(to - from, width / 110);
    g.strokeStyle = c.line;
    g.beginPath();
    g.moveTo(left, bottom + .5);
    g.lineTo(width - right, bottom + .5);
    g.stroke();
    g.textAlign = "center";
    for (let t = Math.ceil(from / by) * by; t <= to; t += by) {
      if (x(t) > left + 12 && x(t) < width - 24) g.fillText(tick(t, by), x(t), bottom + 9);
    }
  }

  // zoom makes the window smaller by a factor, around a time.
  zoom(factor, around) {
    const [from, to] = this.window, t = around ?? (from + to) / 2;
    const span = Math.min(Math.max((to - from) * factor, 200), this.whole[1] - this.whole[0]);
    const share = (t - from) / (to - from);
    this.move(t - share * span, span);
  }

  // chosen returns the time of the packet that is selected, if it is in the window.
  chosen() {
    const t = this.selected >= 0 ? this.store.time[this.selected] : NaN;
    return t >= this.window[0] && t <= this.window[1] ? t : undefined;
  }

  move(from, span) {
    from = Math.min(Math.max(from, this.whole[0]), this.whole[1] - span);
    this.window = [from, from + span];
    this.draw();
  }

  reset() {
    this.window = this.whole;
    this.draw();
  }

  // timeAt returns the time under a mouse.
  timeAt(event) {
    const r = this.psn.getBoundingClientRect();
    return this.window[0] + (event.clientX - r.left - left) / (r.width - left - right) * (this.window[1] - this.window[0]);
  }

  // nearest returns the point under a mouse, within some pixels.
  nearest(event) {
    if (!this.y) return null;
    const r = this.psn.getBoundingClientRect(), [from, to] = this.window;
    const px = event.clientX - r.left, py = event.clientY - r.top, wide = r.width - left - right;
    let best = null, least = 14 * 14;
    for (const p of this.points) {
      const dx = left + (p.t - from) / (to - from) * wide - px;
      if (Math.abs(dx) > 14) continue;
      const dy = Plot.middle(p, this.y) - py, d = dx * dx + dy * dy;
      if (d <= least) [best, least] = [p, d];
    }
    return best;
  }

  listen() {
    let drag = null;
    for (const canvas of [this.psn, this.rate]) {
      canvas.addEventListener("wheel", e => {
        e.preventDefault();
        this.zoom(e.deltaY > 0 ? 1.25 : .8, this.timeAt(e));
      }, {passive: false});
      canvas.addEventListener("dblclick", () => this.reset());
      canvas.addEventListener("pointerdown", e => { drag = {x: e.clientX, window: this.window, moved: false}; canvas.setPointerCapture(e.pointerId); });
      canvas.addEventListener("pointermove", e => {
        if (!drag) return;
        if (Math.abs(e.clientX - drag.x) > 3) drag.moved = true;
        const span = drag.window[1] - drag.window[0];
        if (drag.moved) this.move(drag.window[0] - (e.clientX - drag.x) / (canvas.clientWidth - left - right) * span, span);
      });
      canvas.addEventListener("pointerup", e => {
        const click = drag && !drag.moved;
        drag = null;
        const p = click && canvas === this.psn && this.nearest(e);
        if (p) this.pick(p.i);
      });
    }
    this.psn.addEventListener("pointermove", e => this.hover(e));
    this.psn.addEventListener("pointerleave", () => { this.tip.hidden = true; });
  }

  hover(event) {
    const p = this.nearest(event);
    this.tip.hidden = !p;
    if (!p) return;
    const s = this.store, r = this.psn.getBoundingClientRect(), px = event.clientX - r.left;
    this.tip.textContent = "#" + s.record[p.i] + "  " + seconds(p.t) + " s\n" + s.words(p.i) + "\n" + s.tags(p.i).join(", ");
    this.tip.style.left = Math.max(0, Math.min(px + 14, r.width - 350)) + "px";
    this.tip.style.top = Math.max(0, event.clientY - r.top - 50) + "px";
  }
}
