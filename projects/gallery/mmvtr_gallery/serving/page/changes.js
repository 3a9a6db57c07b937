// Add, delete, quarantine, judge, re-fit and undo, for who knows the token.
import {$, ask, make, many, short, token} from './api.js';

let changed = async () => {};
const json = {'Content-Type': 'application/json'};

// Which token to send: it is asked for once, and again where it was `wrong`.
function asked(wrong) {
  const known = token.get();
  if (known) return Promise.resolve(known);
  return new Promise((resolve, reject) => {
    const dialog = $('asking'), field = $('token');
    let given = null;
    field.value = '';
    $('refused').textContent = wrong ? 'That is not the token of this gallery.' : '';
    $('give').onclick = () => { given = field.value.trim(); dialog.close(); };
    $('refuse').onclick = () => dialog.close();
    field.onkeydown = (event) => {
      if (event.key !== 'Enter') return;
      event.preventDefault();  // or it would press what has the focus next
      $('give').click();
    };
    dialog.onclose = () => {
      if (!given) { reject(Object.assign(new Error('Not done: a change needs the token.'), {refused: true})); return; }
      token.set(given);
      resolve(given);
    };
    dialog.showModal();
  });
}

async function change(path, body, headers = {}) {
  for (let wrong = false; ; wrong = true) {
    const Authorization = `Bearer ${await asked(wrong)}`;
    try {
      return await ask(path, {method: 'POST', body, headers: {...headers, Authorization}});
    } catch (error) {
      if (error.status !== 401) throw error;
      token.forget();
    }
  }
}

// What was done, and a line for each file that was not added.
function say(words, failures = []) {
  const lines = failures.map(([name, why]) => make('li', {}, make('bdi', {textContent: name}), `: ${why}`));
  $('done').replaceChildren(words, ...(lines.length ? [make('ul', {}, ...lines)] : []));
  $('done').className = lines.length ? 'wrong' : '';
}

// Do it, say what was done or why not, and show the gallery as it is now.
async function carried(work) {
  $('manage').classList.add('busy');
  try {
    say(...[await work()].flat(1));
  } catch (error) {
    say(error.message);
    $('done').className = 'wrong';
  }
  $('manage').classList.remove('busy');
  await changed();
}

const moves = (moved) => `${Math.round(100 * moved.first)} % of ${many(moved.queries, 'query').replace('querys', 'queries')} find another video first`;

export const remove = (id) => carried(async () => {
  const {items} = await change('delete', JSON.stringify({ids: [id]}), json);
  return `“${id}” is deleted; ${many(items, 'item')} left.`;
});

export const hold = (id, release) => carried(async () => {
  await change('quarantine', JSON.stringify({ids: [id], release}), json);
  return release ? `Searches find “${id}” again.` : `No search finds “${id}” now; it stays in the gallery.`;
});

// Nothing is searched anew: what is shown stays. Whether it is stored.
export async function judge(text, id, right) {
  try {
    const {judgments} = await change('judge', JSON.stringify({text, id, right}), json);
    const what = right === null ? 'not judged' : right ? 'right' : 'wrong';
    say(`“${id}”: ${what} for “${short(text)}”. ${many(judgments, 'judgment')} now.`);
    return true;
  } catch (error) {
    say(error.message);
    $('done').className = 'wrong';
    return false;
  }
}

export const add = (files) => carried(async () => {
  let items = 0;
  const notes = [], failures = [];
  for (const [number, file] of files.entries()) {
    say(`Adding ${number + 1} of ${files.length}: ${file.name}`);
    try {
      const said = await change(`add/video?${new URLSearchParams({file: file.name})}`, file);
      items = said.items;
      if (said.note) notes.push(said.note);
    } catch (error) {
      const left = error.refused ? files.slice(number) : [file];
      failures.push(...left.map((one) => [one.name, error.message]));
      if (error.refused) break;
    }
  }
  const added = files.length - failures.length, note = notes.length ? ` ${notes[0]}.` : '';
  if (!added) return ['No video was added.', failures];
  const of = failures.length ? `${added} of ${many(files.length, 'video')}` : many(added, 'video');
  return [`${of} added; ${many(items, 'item')} now.${note}`, failures];
});

const undo = () => carried(async () => {
  const said = await change('undo', '{}', json);
  const what = named({kind: said.kind, items: said.changed, undone: said.undone});
  const how = said.undone ? 'redone' : 'undone';
  if (said.moved) return `The ${what} is ${how}: ${moves(said.moved)}.`;
  return `The ${what} is ${how}; ${many(said.items, 'item')} now.`;
});

// A change in words; of an undo: the change that it has undone.
const OPPOSITE = {add: 'delete', delete: 'add', quarantine: 'release', release: 'quarantine'};
function named({kind, items, undone}) {
  const word = undone ? OPPOSITE[kind] || kind : kind;
  return items === null ? 're-fit' : `${word} of ${many(items, 'item')}`;
}

// The dialog stays open, with what was typed and chosen, until the biases are found.
const refit = (texts, fewer) => carried(async () => {
  $('unfit').textContent = '';
  let said;
  try {
    said = await change('refit', JSON.stringify({texts, fewer}), json);
  } catch (error) {
    $('unfit').textContent = error.message;
    throw error;
  }
  $('fitting').close();
  const cut = said.texts_cut ? ` ${many(said.texts_cut, 'text')} longer than the model reads.` : '';
  return `Re-fitted to ${many(said.num_queries, 'text')}: ${moves(said.moved)}.${cut}`;
});

export function show(health, stats) {
  $('manage').hidden = !health.changes;
  $('add').hidden = !health.library;
  const last = stats.last_change;
  $('undo').disabled = !last;
  $('undo').textContent = last ? `${last.undone ? 'Redo' : 'Undo'} the ${named(last)}` : 'Undo';
  $('sampled').textContent = stats.sample ? `Without a text the ${stats.sample.kept} sampled queries are taken.` : '';
}

export function wire(after) {
  changed = after;
  $('undo').onclick = undo;
  $('refit').onclick = () => { $('unfit').textContent = ''; $('fitting').showModal(); };
  $('leave').onclick = () => $('fitting').close();
  $('do').onclick = () => {
    const texts = $('texts').value.split('\n').map((line) => line.trim()).filter(Boolean);
    refit(texts.length ? texts : null, $('fewer').checked);
  };
  $('new').onchange = () => {
    const files = [...$('new').files];
    $('new').value = '';
    if (files.length) add(files);
  };
}
