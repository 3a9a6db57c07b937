// The page: searches or browses, and keeps in its address what is shown. No library, no build step.
import {$, ask, make, many, post, short} from './api.js';
import * as cards from './cards.js';
import * as changes from './changes.js';
import * as filters from './filters.js';
import {play} from './player.js';
import './keys.js';

const calm = matchMedia('(prefers-reduced-motion: reduce)');
const HITS = 12, PAGE = 24, MOST = 1000;
let asked = null;      // what is shown: {text}, {like}, {video} or {browse: page}
let wanted = HITS;     // hits of the search
let health = {}, stats = {};
let underway = null;   // aborts the requests of the last search
let moments = new Map();

const on = {
  play: (item) => play(item, asked?.text, moments),
  like: (id) => { $('text').value = ''; search({like: id}); },
  remove: null,
  judge: null,
  hold: changes.hold,
};

function tell(title, words, kind = '') {
  const place = $('message');
  place.replaceChildren(make('strong', {textContent: title}), words[0].toUpperCase() + words.slice(1));
  place.className = kind;
  place.setAttribute('role', kind === 'error' ? 'alert' : 'note');
  place.hidden = false;
}

async function begin() {
  try {
    await look();
  } catch (error) {
    tell('Nothing to search', error.message, 'error');
    return;
  }
  $('note').textContent = health.note || '';
  for (const text of health.examples) {
    const chip = make('button', {type: 'button', dir: 'auto', textContent: short(text), title: text});
    chip.onclick = () => { $('text').value = text; search({text}); };
    $('examples').append(chip);
  }
  fromAddress();
}

// How the gallery is now.
async function look() {
  [health, stats] = await Promise.all([ask('health'), ask('stats')]);
  on.remove = health.changes ? changes.remove : null;
  $('size').textContent = many(health.items, 'item');
  $('text').disabled = !health.encodes.includes('text');
  if ($('text').disabled) $('text').placeholder = 'No text model here: search by vector (API), or browse';
  $('by-video').hidden = !health.encodes.includes('video');
  $('switch').hidden = !health.transform;
  $('ranking').hidden = !health.windows?.count;
  $('precision').hidden = !health.calibration || byMoments();
  $('examples').hidden = !health.examples.length || !health.items;
  $('view').hidden = $('bar').hidden = !health.items;
  $('marks').hidden = !stats.found;
  filters.build(stats.columns, again);
  changes.show(health, stats);
  const columns = Object.keys(stats.columns).filter((name) => name !== 'sigma' || stats.columns.sigma.min !== null);
  const sorts = ['id', ...(stats.found ? ['found'] : []), ...columns];
  const chosen = $('sort').value || 'id';
  $('sort').replaceChildren(...sorts.map((name) => make('option', {value: name, textContent: name === 'found' ? 'how often found' : name})));
  $('sort').value = sorts.includes(chosen) ? chosen : 'id';
}

// After a change: what was shown, as it is now.
async function refresh() {
  await look();
  moments = new Map();
  if (!health.items) { asked = null; clear(); welcome(); return; }
  if (!asked || asked.video) { if (!asked) welcome(); return; }
  $('results').replaceChildren();
  await again();
}

function welcome() {
  if (!health.items) tell('The gallery is empty', 'Add videos, and they can be found here.');
  else tell('Say what happens', 'The videos that fit best come first, each with the moment that fits.');
}

const again = () => asked?.browse !== undefined ? browse(0, true) : asked ? search(asked, true) : undefined;

function fromAddress() {
  const said = new URLSearchParams(location.search);
  let filter = null;
  try { filter = JSON.parse(said.get('filter')); } catch { /* as if there were none */ }
  filters.set(filter);
  $('filters').open = Boolean(filter);
  $('least').value = said.get('precision') || '';
  $('by').value = said.get('by') === 'moments' ? 'moments' : 'items';
  document.querySelector(`[name=transform][value=${said.get('raw') ? 'no' : 'yes'}]`).checked = true;
  $('sort').value = said.get('sort') || 'id';
  if ($('sort').selectedIndex < 0) $('sort').value = 'id';
  $('descending').checked = Boolean(said.get('descending'));
  $('which').value = said.get('show') || '';
  const [text, like] = [said.get('q'), said.get('like')];
  $('text').value = text || '';
  if (!health.items) { show('search'); welcome(); return; }
  if (said.has('page')) browse(Math.max(0, Number(said.get('page')) - 1 || 0), true);
  else if (text) search({text}, true);
  else if (like) search({like}, true);
  else { asked = null; clear(); show('search'); welcome(); }
}

// The address of what is shown, to be shared; a video that was sent has none.
function address(kept) {
  const said = {};
  if (asked.text) said.q = asked.text;
  if (asked.like) said.like = asked.like;
  const filter = filters.value();
  if (filter && !asked.video) said.filter = JSON.stringify(filter);
  if (asked.browse !== undefined) {
    said.page = asked.browse + 1;
    if ($('sort').value !== 'id') said.sort = $('sort').value;
    if ($('descending').checked) said.descending = 1;
    if ($('which').value) said.show = $('which').value;
  } else {
    if (!transformed()) said.raw = 1;
    if ($('least').value) said.precision = $('least').value;
    if (byMoments()) said.by = 'moments';
  }
  $('share').hidden = Boolean(asked.video);
  const url = `?${new URLSearchParams(said)}`;
  if (url === location.search) return;
  history[kept ? 'replaceState' : 'pushState'](null, '', url);
}

// Biases are fitted for texts: similar videos are ranked raw.
const debiases = (query) => Boolean(health.transform) && Boolean(query?.text);
const transformed = () => document.querySelector('[name=transform]:checked').value === 'yes';

function clear() {
  $('results').replaceChildren();
  $('general').hidden = $('cut').hidden = $('pager').hidden = $('more').hidden = true;
  $('said').textContent = $('told').textContent = '';
}

// Which of the two views there is room for.
function show(view) {
  const browsing = view === 'browse';
  $('browse').hidden = !browsing;
  $('switch').hidden = browsing || !health.transform || (asked !== null && !debiases(asked));
  $('ranking').hidden = browsing || !health.windows?.count;
  $('precision').hidden = browsing || !health.calibration || byMoments();
  $('view').textContent = browsing ? 'Search' : 'Browse';
  $('view').setAttribute('aria-pressed', String(browsing));
  if (browsing) { $('general').hidden = $('cut').hidden = $('more').hidden = true; $('said').textContent = ''; }
  else $('pager').hidden = true;
}

const byMoments = () => Boolean(health.windows?.count) && $('by').value === 'moments';

function failed(error) {
  asked = null;
  clear();
  tell('That did not work', error.message, 'error');
}

async function search(query, kept = false) {
  underway?.abort();
  const {signal} = underway = new AbortController();
  const same = asked && !query.video && query.text === asked.text && query.like === asked.like;
  if (!same) { moments = new Map(); wanted = HITS; }
  if (asked?.browse !== undefined) clear();
  const compare = debiases(query), transform = compare && transformed();
  const k = Math.min(wanted, health.items);
  const rank_by = byMoments() ? 'moments' : 'items';
  document.body.classList.add('busy');
  try {
    let found;
    if (query.video) {
      const options = new URLSearchParams({k, transform, compare, rank_by});
      found = await ask(`search/video?${options}`, {method: 'POST', body: query.video, signal});
    } else {
      const least = health.calibration && query.text && !byMoments() ? Number($('least').value) || null : null;
      found = await post('search', {...query, k, transform, compare, rank_by, filter: filters.value(), min_precision: least}, signal);
    }
    asked = query;
    show('search');
    address(kept || same);
    found.compared = compare;
    on.judge = health.judges && query.text ? (id, right) => changes.judge(query.text, id, right) : null;
    fill(found, query, k);
    document.body.classList.add('searched');
    await Promise.all([markAll(signal), query.text ? findMoments(query.text, signal) : null]);
  } catch (error) {
    if (error.name === 'AbortError') return;
    failed(error);
  } finally {
    if (underway.signal === signal) document.body.classList.remove('busy');
  }
}

function fill(found, query, k) {
  $('message').hidden = true;
  document.body.classList.remove('busy');
  sayFound(found, query);
  sayCut(found);
  sayGeneral(found);
  const before = new Map([...$('results').querySelectorAll('.hit')].map((li) => [li.dataset.id, li]));
  const places = new Map([...before].map(([id, li]) => [id, li.getBoundingClientRect()]));
  const items = found.hits.map((hit) => {
    const li = cards.hit(before.get(hit.id) || cards.made(), hit, found, health, on);
    if (hit.moment) moments.set(hit.id, span(hit.moment));
    cards.moment(li, moments.get(hit.id));
    li.classList.remove('unlikely');
    return li;
  });
  $('results').replaceChildren(...items);
  line(found, items);
  if (found.note) $('results').prepend(make('li', {className: 'line', textContent: found.note}));
  $('more').hidden = found.hits.length < k || k >= Math.min(health.items, MOST);
  if (!items.length) tell('Nothing fits', 'No video of the gallery passes the filter.');
  if (!calm.matches) items.forEach((li) => slide(li, places.get(li.dataset.id)));
}

// A window of a hit, as /moment tells a moment.
const span = (window) => ({start: window.start, end: window.end, item_start: window.item_start, item_end: window.item_end});

// Behind the last hit that is likely enough.
function line(found, items) {
  if (!$('least').value || byMoments() || !health.calibration || !asked.text) return;
  if (found.threshold === null && found.hits.every((hit) => hit.p_match === null)) return;
  const read = (hit) => health.calibration.debiased ? hit.raw + hit.bias : hit.raw;
  const enough = (hit) => found.threshold !== null ? read(hit) >= found.threshold
    : found.threshold_p_match !== null && hit.p_match >= found.threshold_p_match;
  const likely = found.hits.findLastIndex(enough);
  if (likely === items.length - 1) return;
  const said = likely < 0 ? 'Probably nothing here: no video reaches this precision' : 'Below this, probably nothing here';
  const li = make('li', {className: 'line', textContent: said});
  if (likely < 0) $('results').prepend(li);
  else items[likely].after(li);
  items.slice(likely + 1).forEach((item) => item.classList.add('unlikely'));
}

function sayFound(found, query) {
  const name = query.text || query.like || query.video.name;
  const about = make('bdi', {textContent: query.text ? `“${short(name, 80)}”` : short(name, 80), title: name});
  const moved = found.hits.filter((hit) => hit.moved !== hit.rank).length;
  const other = found.transform ? 'raw scores' : 'debiased scores';
  const movement = debiases(query) ? ` · ${moved} of ${found.hits.length} have another rank by ${other}` : '';
  const unfiltered = query.video && filters.value() ? ' · the filter is not for videos' : '';
  $('said').replaceChildren(query.like ? 'videos like ' : '', about, ` · ${found.ms.toFixed(0)} ms${movement}${unfiltered}`);
}

function sayCut(found) {
  const place = $('cut');
  place.hidden = !found.cut;
  if (found.cut) place.textContent = `The model reads ${found.cut.read} tokens of a text, and this query has ${found.cut.of}: its end was not searched for.`;
}

function sayGeneral(found) {
  const place = $('general');
  place.hidden = found.sigma === null;
  if (place.hidden) return;
  const sigma = `σ ${found.sigma.toPrecision(3)}`;
  const share = found.wider_than;
  if (share === null) place.textContent = `Uncertainty of the query: ${sigma}.`;
  else if (share >= 0.8) place.textContent = `This query is general: many videos may fit it. Its ${sigma} is wider than that of ${Math.round(100 * share)} % of the known texts.`;
  else place.textContent = `Uncertainty of the query: ${sigma}, wider than that of ${Math.round(100 * share)} % of the known texts.`;
}

function slide(li, from) {
  if (!from) { li.animate([{opacity: 0}, {opacity: 1}], {duration: 250}); return; }
  const to = li.getBoundingClientRect();
  const [x, y] = [from.left - to.left, from.top - to.top];
  if (x || y) li.animate([{transform: `translate(${x}px, ${y}px)`}, {transform: 'none'}], {duration: 420, easing: 'cubic-bezier(.2, .8, .2, 1)'});
}

const shown = () => [...$('results').querySelectorAll('.hit')];

// Which of the hits are hubs, or never found.
async function markAll(signal) {
  if (!stats.found) return;
  const ids = shown().map((li) => li.dataset.id);
  for (let at = 0; at < ids.length; at += 200) {
    const filter = {id: ids.slice(at, at + 200)};
    const {items} = await post('items', {filter, limit: 200}, signal).catch(() => ({items: []}));
    if (signal.aborted) return;
    const known = new Map(items.map((item) => [item.id, item]));
    shown().forEach((li) => known.has(li.dataset.id) && cards.mark(li, known.get(li.dataset.id)));
  }
}

// One after the other: a moment decodes a video, and a new search comes first.
async function findMoments(text, signal) {
  for (const li of shown()) {
    if (signal.aborted) return;
    const id = li.dataset.id;
    if (li.querySelector('.strip').disabled) continue;
    try {
      if (!moments.has(id)) moments.set(id, await post('moment', {id, text}, signal));
    } catch (error) {
      if (error.name === 'AbortError') return;
      moments.set(id, {start: null});
    }
    cards.moment(li, moments.get(id));
  }
}

async function browse(page, kept = false) {
  underway?.abort();
  const {signal} = underway = new AbortController();
  const body = {
    filter: filters.value(), mark: $('which').value || null, sort: $('sort').value,
    descending: $('descending').checked, offset: page * PAGE, limit: PAGE,
  };
  document.body.classList.add('busy');
  try {
    const found = await post('items', body, signal);
    const last = Math.max(0, Math.ceil(found.total / PAGE) - 1);
    if (page > last) { await browse(last, kept); return; }
    if (asked?.browse === undefined) { moments = new Map(); clear(); }
    asked = {browse: page};
    show('browse');
    address(kept);
    $('message').hidden = true;
    document.body.classList.add('searched');
    $('results').replaceChildren(...found.items.map((item, row) =>
      cards.listed(cards.made(), item, body.offset + row + 1, stats, on)));
    if (!found.items.length) tell('Nothing fits', 'No video of the gallery passes the filter.');
    sayPlace(found, body.offset);
    window.scrollTo(0, 0);
  } catch (error) {
    if (error.name !== 'AbortError') failed(error);
  } finally {
    if (underway.signal === signal) document.body.classList.remove('busy');
  }
}

function sayPlace(found, offset) {
  const end = offset + found.items.length;
  $('place').textContent = found.total ? `${offset + 1} to ${end} of ${found.total.toLocaleString('en')}` : '';
  $('previous').disabled = !offset;
  $('next').disabled = end >= found.total;
  $('pager').hidden = !found.total;
  const how = stats.found;
  $('told').textContent = how ? `${many(how.hubs, 'hub')}, ${how.never_found} never found by ${how.queries} ${how.source === 'bank' ? 'texts of the last re-fit' : 'sampled queries'}` : '';
}

$('form').onsubmit = (event) => {
  event.preventDefault();
  const text = $('text').value.trim();
  if (text) search({text});
};
for (const input of document.querySelectorAll('[name=transform]')) input.onchange = again;
$('least').onchange = $('by').onchange = again;
for (const name of ['sort', 'descending', 'which']) $(name).onchange = () => browse(0);
$('clear').onclick = () => { filters.set(null); again(); };
$('previous').onclick = () => browse(asked.browse - 1);
$('next').onclick = () => browse(asked.browse + 1);
$('more').onclick = () => { wanted = Math.min(wanted + HITS, MOST); search(asked, true); };
$('view').onclick = () => {
  if (asked?.browse === undefined) { browse(0); return; }
  const text = $('text').value.trim();
  if (text) { search({text}); return; }
  history.pushState(null, '', './');
  fromAddress();
};
$('share').onclick = async () => {
  const said = $('share');
  try {
    await navigator.clipboard.writeText(location.href);
    said.textContent = 'Copied';
  } catch {
    said.textContent = 'Copy the address of this page';
  }
  setTimeout(() => { said.textContent = 'Copy link'; }, 2000);
};
$('file').onchange = () => {
  const [video] = $('file').files;
  $('file').value = '';
  if (video) searchBy(video);
};

function searchBy(video) {
  $('text').value = '';
  search({video});
}

// A file that is dropped is added, or searched with where nothing can be added.
const adds = () => health.changes && health.library;
let inside = 0;
const holds = (event) => [...event.dataTransfer.types].includes('Files');
document.addEventListener('dragenter', (event) => {
  if (!holds(event)) return;
  inside += 1;
  $('drop').firstElementChild.textContent = adds() ? 'Drop videos to add them' : 'Drop a video to search by it';
  $('drop').hidden = false;
});
document.addEventListener('dragleave', () => { inside = Math.max(0, inside - 1); $('drop').hidden = !inside; });
document.addEventListener('dragover', (event) => { if (holds(event)) event.preventDefault(); });
document.addEventListener('drop', (event) => {
  if (!holds(event)) return;
  event.preventDefault();
  inside = 0;
  $('drop').hidden = true;
  const files = [...event.dataTransfer.files];
  if (adds()) changes.add(files);
  else if (files.length) searchBy(files[0]);
});
window.addEventListener('popstate', fromAddress);
changes.wire(refresh);
begin();
