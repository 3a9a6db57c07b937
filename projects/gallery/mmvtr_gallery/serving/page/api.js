// What the page asks the service. No library, no build step.
export const $ = (id) => document.getElementById(id);

export async function ask(path, options = {}) {
  let answer;
  try {
    answer = await fetch(path, options);
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new Error('The service does not answer. Is it still running?');
  }
  const said = await answer.json().catch(() => ({}));
  if (answer.ok) return said;
  const error = new Error(said.error || `The service answers ${answer.status}.`);
  error.status = answer.status;
  throw error;
}

export const post = (path, body, signal) => ask(path, {
  method: 'POST', headers: {'Content-Type': 'application/json'},
  body: JSON.stringify(body), signal,
});

const KEPT = 'token';
export const token = {
  get: () => sessionStorage.getItem(KEPT),
  set: (given) => sessionStorage.setItem(KEPT, given),
  forget: () => sessionStorage.removeItem(KEPT),
};

// Where a picture or a video of an item is; of one in quarantine it comes with the token.
export async function place(path, held) {
  if (!held) return path;
  const answer = await fetch(path, {headers: {Authorization: `Bearer ${token.get()}`}});
  if (!answer.ok) throw new Error(`The service answers ${answer.status}.`);
  return URL.createObjectURL(await answer.blob());
}

// Seconds as minutes and seconds.
export const clock = (seconds) => `${Math.floor(seconds / 60)}:${(seconds % 60).toFixed(1).padStart(4, '0')}`;

export const short = (text, most = 60) => {
  const letters = [...text];
  return letters.length > most ? `${letters.slice(0, most - 1).join('')}…` : text;
};

export const many = (count, word) => `${count.toLocaleString('en')} ${word}${count === 1 ? '' : 's'}`;

// An element with what is in it: text is text, never HTML.
export function make(tag, properties = {}, ...content) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...content);
  return element;
}
