// Add, delete, re-fit and undo, for who knows the token.
import {$, ask, many, token} from './api.js';

let changed = async () => {};
const json = {'Content-Type': 'application/json'};

// Which token to send: it is asked for once, and again where it was wrong.
function asked() {
  const known = token.get();
  if (known) return Promise.resolve(known);
  return new Promise((resolve, reject) => {
    const dialog = $('asking'), field = $('token');
    let given = null;
    field.value = '';
    $('give').onclick = () => { given = field.value.trim(); dialog.close(); };
    $('refuse').onclick = () => dialog.close();
    field.onkeydown = (event) => {
      if (event.key !== 'Enter') return;
      event.preventDefault();  // or it would press what has the focus next
      $('give').click();
    };
    dialog.onclose = () => {
      if (!given) { reject(new Error('Nothing was changed: a change needs the token.')); return; }
      token.set(given);
      resolve(given);
    };
    dialog.showModal();
  });
}

async function change(path, body, headers = {}) {
  const Authorization = `Bearer ${await asked()}`;
  try {
    return await ask(path, {method: 'POST', body, headers: {...headers, Authorization}});
  } catch (error) {
    if (error.status !== 401) throw error;
    token.forget();
    throw new Error('Nothing was changed: that is not the token of this gallery.');
  }
}

function say(words, wrong = false) {
  $('done').textContent = words;
  $('done').className = wrong ? 'wrong' : '';
}

// Do it, say what was done or why not, and show the gallery as it is now.
async function carried(work) {
  $('manage').classList.add('busy');
  try {
    say(await work());
  } catch (error) {
    say(error.message, true);
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

export const add = (files) => carried(async () => {
  let items = 0;
  const notes = [];
  for (const [number, file] of files.entries()) {
    say(`Adding ${number + 1} of ${files.length}: ${file.name}`);
    try {
      const said = await change(`add/video?${new URLSearchParams({file: file.name})}`, file);
      items = said.items;
      if (said.note) notes.push(said.note);
    } catch (error) {
      throw new Error(`${file.name}: ${error.message}${number ? ` (${number} before it are added)` : ''}`);
    }
  }
  const note = notes.length ? ` ${notes[0]}.` : '';
  return `${many(files.length, 'video')} added; ${many(items, 'item')} now.${note}`;
});

const undo = () => carried(async () => {
  const said = await change('undo', '{}', json);
  if (said.moved) return `The refit is undone: ${moves(said.moved)}.`;
  return `The last ${said.kind} of ${many(said.changed, 'item')} is undone; ${many(said.items, 'item')} now.`;
});

const refit = (texts, fewer) => carried(async () => {
  const said = await change('refit', JSON.stringify({texts, fewer}), json);
  const cut = said.texts_cut ? ` ${many(said.texts_cut, 'text')} longer than the model reads.` : '';
  return `Re-fitted to ${many(said.num_queries, 'text')}: ${moves(said.moved)}.${cut}`;
});

export function show(health, stats) {
  $('manage').hidden = !health.changes;
  $('add').hidden = !health.library;
  const last = stats.last_change;
  $('undo').disabled = !last;
  $('undo').textContent = !last ? 'Undo' : last.items === null ? 'Undo the re-fit' : `Undo the ${last.kind} of ${many(last.items, 'item')}`;
  $('sampled').textContent = stats.sample ? `Without a text the ${stats.sample.kept} sampled queries are taken.` : '';
}

export function wire(after) {
  changed = after;
  $('undo').onclick = undo;
  $('refit').onclick = () => $('fitting').showModal();
  $('leave').onclick = () => $('fitting').close();
  $('do').onclick = () => {
    const texts = $('texts').value.split('\n').map((line) => line.trim()).filter(Boolean);
    $('fitting').close();
    refit(texts.length ? texts : null, $('fewer').checked);
  };
  $('new').onchange = () => {
    const files = [...$('new').files];
    $('new').value = '';
    if (files.length) add(files);
  };
}
