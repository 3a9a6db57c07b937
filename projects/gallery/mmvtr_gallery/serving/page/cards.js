// One item as a card: what a search has found, or what the gallery lists.
import {$, clock, place, short, token} from './api.js';

// How wide a strip is for its height, and how many frames fill it: as many as the last did.
const WIDE = 5.1, MOST = 16;
// Columns that tell people what a video is; the first that an item has stands under its strip.
const TITLES = ['title', 'caption', 'text'];
let frames = 6;
export const made = () => $('hit').content.firstElementChild.cloneNode(true);
const part = (li, name) => li.querySelector(`.${name}`);
const signed = (x) => `${x < 0 ? '−' : '+'}${Math.abs(x).toFixed(3)}`;

// A strip is asked for when it is about to be seen: it decodes a video.
const near = new IntersectionObserver((entries) => {
  for (const {target, isIntersecting} of entries) {
    if (!isIntersecting) continue;
    near.unobserve(target);
    draw(target);
  }
}, {rootMargin: '250px'});

// With other frames, if it is too wide or too narrow: what is cut off would have no moments.
function draw(picture) {
  const asked = frames, {id, held} = picture.dataset;
  picture.onload = () => {
    const fitting = Math.round(asked * WIDE * picture.naturalHeight / picture.naturalWidth);
    frames = Math.min(MOST, Math.max(1, fitting));
    if (frames !== asked) draw(picture);
  };
  place(`thumb?${new URLSearchParams({id, frames: asked})}`, held).then((url) => { picture.src = url; }, picture.onerror);
}

// What both have; `on` has what happens: play, like, remove (null: nobody may).
function common(li, item, on) {
  const fresh = li.dataset.id === undefined;
  li.dataset.id = item.id;
  part(li, 'name').textContent = item.id;
  part(li, 'name').title = item.file || item.id;
  part(li, 'sigma').textContent = item.sigma === null ? '' : `σ ${item.sigma.toPrecision(2)}`;
  const title = TITLES.find((name) => typeof item.metadata[name] === 'string');
  part(li, 'caption').hidden = !title;
  part(li, 'caption').textContent = title ? short(item.metadata[title], 140) : '';
  part(li, 'caption').title = title ? item.metadata[title] : '';
  const columns = Object.entries(item.metadata).filter(([name, value]) => value !== null && name !== title);
  part(li, 'columns').hidden = !columns.length;
  part(li, 'columns').replaceChildren(...columns.map(([name, value]) => {
    const shown = document.createElement('bdi'), said = document.createElement('span');
    shown.textContent = short(String(value), 140);
    shown.title = String(value);
    said.append(`${name} `, shown);
    return said;
  }));
  const strip = part(li, 'strip'), remove = part(li, 'delete'), hold = part(li, 'hold');
  remove.hidden = hold.hidden = !on.remove;
  part(li, 'held').hidden = !item.quarantined;
  hold.textContent = item.quarantined ? 'Release' : 'Quarantine';
  hold.onclick = () => on.hold(item.id, Boolean(item.quarantined));
  if (fresh) {
    const picture = strip.querySelector('img');
    picture.onerror = () => strip.classList.add('none');
    picture.dataset.id = item.id;
    const seen = item.file && (!item.quarantined || token.get());
    if (item.quarantined) picture.dataset.held = 'yes';
    if (seen) near.observe(picture);
    else strip.classList.add('none');
    strip.disabled = !seen;
    part(li, 'like').onclick = () => on.like(item.id);
    remove.onclick = () => on.remove(item.id);
    part(li, 'marked').onclick = (event) => {
      const why = part(li, 'why');
      why.hidden = !why.hidden;
      event.currentTarget.setAttribute('aria-expanded', String(!why.hidden));
    };
  }
  strip.onclick = () => on.play(item);
  return li;
}

// A hub, or an item that is never found; the reason opens on a click.
export function mark(li, item) {
  const chip = part(li, 'marked');
  chip.hidden = !item.mark;
  if (!item.mark) return;
  chip.textContent = item.mark === 'hub' ? 'hub' : 'never found';
  chip.title = item.why;
  part(li, 'why').textContent = `${item.why[0].toUpperCase()}${item.why.slice(1)}.`;
}

export function hit(li, hit, found, health, on) {
  common(li, hit, on);
  part(li, 'rank').textContent = hit.rank;
  part(li, 'score').textContent = hit.score.toFixed(3);
  const [sign, size] = [hit.bias < 0 ? '−' : '+', Math.abs(hit.bias).toFixed(3)];
  part(li, 'sum').textContent = found.transform
    ? `raw ${hit.raw.toFixed(3)} ${sign} bias ${size}`
    : health.transform ? `bias ${sign}${size} left out` : '';
  match(li, hit, found);
  part(li, 'strip').setAttribute('aria-label', `Play ${hit.id} at the moment that fits`);
  moved(part(li, 'moved'), hit, found);
  judged(li, hit, on);
  return li;
}

// Whether it is right for the text, where that can be said (`on.judge`); the same again takes it back.
function judged(li, hit, on) {
  for (const [name, right] of [['yes', true], ['no', false]]) {
    const button = part(li, name);
    button.hidden = !on.judge;
    button.setAttribute('aria-pressed', String(hit.judged === right));
    button.onclick = async () => {
      const said = hit.judged === right ? null : right;
      if (!await on.judge(hit.id, said)) return;
      hit.judged = said;
      judged(li, hit, on);
    };
  }
}

// P(match) as a bar, with a tick at the score from which on the wanted share matches.
function match(li, hit, found) {
  part(li, 'match').hidden = hit.p_match === null;
  if (hit.p_match === null) return;
  const meter = part(li, 'meter'), tick = part(li, 'tick');
  meter.setAttribute('aria-valuenow', hit.p_match.toFixed(3));
  part(li, 'full').style.width = `${100 * hit.p_match}%`;
  tick.hidden = found.threshold_p_match === null;
  if (!tick.hidden) tick.style.left = `${100 * found.threshold_p_match}%`;
  part(li, 'p').textContent = `P(match) ${hit.p_match.toFixed(2)}`;
}

function moved(place, hit, found) {
  place.className = 'moved';
  place.textContent = '';
  if (!found.compared) return;
  const other = found.transform ? 'raw' : 'debiased';
  if (hit.moved === null) {
    place.textContent = `↑ from beyond the 100th ${other}`;
    place.classList.add('up');
  } else if (hit.moved !== hit.rank) {
    const up = hit.moved > hit.rank;
    place.textContent = `${up ? '↑' : '↓'} from ${hit.moved}${suffix(hit.moved)} ${other}`;
    place.classList.add(up ? 'up' : 'down');
  } else {
    place.textContent = `same rank ${other}`;
  }
}

function suffix(n) {
  const rest = n % 100 > 10 && n % 100 < 14 ? 0 : n % 10;
  return ['th', 'st', 'nd', 'rd'][rest] || 'th';
}

export function listed(li, item, place, stats, on) {
  common(li, item, on);
  part(li, 'rank').textContent = place;
  part(li, 'score').textContent = stats.refit?.transform ? `bias ${signed(item.bias)}` : '';
  part(li, 'sum').textContent = item.found === null ? ''
    : `found by ${item.found} of ${stats.found.queries} queries (raw ${item.found_raw})`;
  part(li, 'strip').setAttribute('aria-label', `Play ${item.id}`);
  mark(li, item);
  part(li, 'why').hidden = !item.mark;
  part(li, 'marked').setAttribute('aria-expanded', String(Boolean(item.mark)));
  return li;
}

// Where in its strip an item fits; nothing where that is not known.
export function moment(li, at) {
  const bar = part(li, 'at'), when = part(li, 'when');
  bar.hidden = when.hidden = !at || at.start === null;
  if (bar.hidden) return;
  const length = at.item_end - at.item_start;
  bar.style.left = `${100 * (at.start - at.item_start) / length}%`;
  bar.style.width = `${100 * (at.end - at.start) / length}%`;
  when.textContent = `${clock(at.start)} to ${clock(at.end)}`;
}
