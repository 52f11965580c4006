// Keeps a page as it is now: takes what the server says changed, counts ages on, follows logs. Pages work without it.
"use strict";
(() => {
  const body = document.body;
  const live = document.getElementById("live");
  const LONG_HIDDEN_MS = 3000;
  let ahead = 0; // how far the server's clock is ahead of this one, milliseconds

  // ages

  const span = (seconds) => {
    const whole = Math.max(0, Math.floor(seconds));
    if (whole < 120) return `${whole} s`;
    if (whole < 7200) return `${Math.floor(whole / 60)} min`;
    if (whole < 172800) return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
    return `${Math.floor(whole / 86400)} d ${Math.floor((whole % 86400) / 3600)} h`;
  };
  const age = (root) => {
    const now = (Date.now() + ahead) / 1000;
    for (const element of root.querySelectorAll("time[data-s]")) {
      const text = span(now - Number(element.dataset.s));
      if (element.textContent !== text) element.textContent = text;
    }
  };
  setInterval(() => document.hidden || age(document), 1000);

  // fragments

  const made = (html) => {
    const template = document.createElement("template");
    template.innerHTML = html;
    return template.content.firstElementChild;
  };
  const stops = (element) => [...element.querySelectorAll("a, button, input, select, summary")];
  const replace = (old, fresh) => {
    // Whoever is at a button stays there, and what was opened stays open.
    const at = old.contains(document.activeElement) ? stops(old).indexOf(document.activeElement) : -1;
    const opened = [...old.querySelectorAll("details")].map((one) => one.open);
    fresh.querySelectorAll("details").forEach((one, i) => { one.open = opened[i] ?? one.open; });
    old.replaceWith(fresh);
    if (at >= 0) (stops(fresh)[at] ?? fresh).focus({ preventScroll: true });
  };
  const isHeld = (element) => {
    const selection = getSelection();
    return selection.rangeCount && !selection.isCollapsed && selection.getRangeAt(0).intersectsNode(element);
  };
  const later = new Map(); // fragments whose text is being selected, until it is no more
  const put = (id, fresh) => {
    const old = document.getElementById(id);
    if (!old) return;
    if (isHeld(old)) { later.set(id, fresh); return; }
    later.delete(id);
    age(fresh);
    fresh.classList.add("fresh");
    replace(old, fresh);
  };
  document.addEventListener("selectionchange", () => later.forEach((fresh, id) => put(id, fresh)));

  const patch = (said) => {
    const fresh = new Map(Object.entries(said.parts).map(([id, html]) => [id, made(html)]));
    for (const [id, ids] of Object.entries(said.lists)) {
      const list = document.getElementById(id);
      if (!list) continue;
      const wanted = new Set(ids);
      for (const child of [...list.children]) if (child.id && !wanted.has(child.id)) child.remove();
      let before = [...list.children].find((child) => child.id) ?? null;
      for (const row of ids) {
        let element = document.getElementById(row);
        if (!element) {
          element = fresh.get(row);
          fresh.delete(row);
          if (!element) continue;
          age(element);
        }
        if (element === before) before = before.nextElementSibling;
        else list.insertBefore(element, before);
      }
    }
    fresh.forEach((element, id) => put(id, element));
    document.title = `${said.title} · llmgw`;
  };

  // the stream

  const show = (text, cut) => {
    if (live.textContent !== text) live.textContent = text;
    live.classList.toggle("cut", cut);
  };
  let again = 0; // how long to wait before a stream that was refused is asked for again, milliseconds
  const ask = (url) => {
    // A stream that is refused does not say why; whoever is logged out, or no admin any more, is told by the page itself.
    const asking = new AbortController();
    fetch(url, { headers: { accept: "text/event-stream" }, signal: asking.signal }).then((answer) => {
      asking.abort();
      if (answer.status === 401 || answer.status === 403) location.reload();
    }, () => {});
  };
  const lost = (current, opened, end, begin) => {
    if (current() !== opened) return;
    // A stream that has had its time is opened again at once; only what stays away is worth a word.
    setTimeout(() => { if (!current() || current().readyState !== 1) show("connection lost, reconnecting", true); }, 1500);
    if (opened.readyState === 2) {
      end();
      ask(opened.url);
      again = Math.min(15000, 1000 + again * 2);
      setTimeout(begin, again);
    }
  };
  let source = null;
  let revision = body.dataset.revision;
  const open = () => {
    if (source || !body.dataset.events) return;
    const opened = source = new EventSource(`${body.dataset.events}&revision=${encodeURIComponent(revision)}`);
    opened.addEventListener("hello", (event) => {
      const said = JSON.parse(event.data);
      if (said.build !== body.dataset.build) { location.reload(); return; }
      ahead = said.at_s * 1000 - Date.now();
      const token = document.querySelector("#act [name=token]");
      if (token) token.value = said.token;
      show("live", false);
      again = 0;
    });
    opened.addEventListener("patch", (event) => {
      const said = JSON.parse(event.data);
      revision = said.revision;
      patch(said);
    });
    opened.addEventListener("gone", (event) => {
      close();
      show(JSON.parse(event.data), true);
    });
    opened.addEventListener("error", () => lost(() => source, opened, close, open));
  };
  const close = () => {
    if (source) source.close();
    source = null;
  };
  // a followed log

  const lines = document.getElementById("lines");
  let tail = null;
  let seen = "";
  let cut = false; // the last stream ended with a complaint
  const going = () => { cut = false; show("following", false); };
  const follow = () => {
    if (tail || !lines || !lines.dataset.follow) return;
    const view = lines.parentElement;
    const note = document.getElementById("follow-note");
    const loud = new RegExp(lines.dataset.loud, "i");
    const most = Number(lines.dataset.lines);
    // What the page came to say already is not said twice, and not any more when there is something to show.
    const nothing = document.getElementById("nothing");
    const say = (text) => { note.hidden = !text || Boolean(nothing?.isConnected); note.textContent = text ?? ""; };
    const line = (text, kind) => {
      const element = document.createElement("span");
      if (kind) element.className = kind;
      element.textContent = `${text}\n`;
      return element;
    };
    // The page came with the newest lines; the stream begins with them too, and goes on without losing or doubling any.
    const opened = tail = new EventSource(lines.dataset.follow + (seen ? `&cursor=${encodeURIComponent(seen)}` : ""));
    let first = !seen;
    const take = (event) => {
      const said = JSON.parse(event.data);
      if (event.lastEventId) seen = event.lastEventId;
      if (said.lines.length || said.marker) {
        nothing?.remove();
        const above = view.scrollTop < -4 ? view.scrollHeight : 0;
        const fresh = document.createDocumentFragment();
        if (said.marker) fresh.append(line(said.marker, "marker"));
        for (const text of said.lines.slice(-most)) fresh.append(line(text, loud.test(text) ? "loud" : ""));
        if (first) lines.replaceChildren();
        first = false;
        lines.append(fresh);
        while (lines.childElementCount > most) lines.firstChild.remove();
        // Whoever reads further up stays where they read.
        if (above) view.scrollTop -= view.scrollHeight - above;
      }
      say(said.error ?? said.note);
      if (!said.ended) { again = 0; going(); return; }
      // Whatever ended it with a complaint, such as a server that is started anew, may be over soon.
      unfollow();
      cut = Boolean(said.error);
      show(cut ? "interrupted, trying again" : "", cut);
      if (said.error) setTimeout(follow, again = Math.min(15000, 1000 + again * 2));
    };
    opened.addEventListener("message", take);
    opened.addEventListener("end", take);
    // A node that did not answer may not answer again, and that takes ten seconds to be known.
    opened.addEventListener("open", () => { if (cut) setTimeout(() => tail === opened && going(), 11000); else going(); });
    opened.addEventListener("error", () => lost(() => tail, opened, unfollow, follow));
  };
  const unfollow = () => {
    if (tail) tail.close();
    tail = null;
  };

  // Nobody looks at a page that is long hidden.
  let hidden = 0;
  document.addEventListener("visibilitychange", () => {
    clearTimeout(hidden);
    if (document.hidden) hidden = setTimeout(() => { close(); unfollow(); }, LONG_HIDDEN_MS);
    else { age(document); open(); follow(); }
  });
  // A page that was opened behind another begins when it is looked at: browsers have few connections to one server.
  if (!document.hidden) { open(); follow(); }
})();
