// Ranks the sections of the site for a query, in place of Sphinx's search, which finds a page only if
// it has all words. The words that a section has count by how rare they are: with BM25 in its text,
// five times in its names, which are its heading, its page and the comment below the heading
// (`<!-- search: parquet, Arrow -->`). All this is multiplied by the share of the query that it has.
// docs/conf.py writes SECTIONS: [page, anchor, [heading, headings above], [further names], text].

// Words that searchers use for each other, a line each; another word of the line counts ALIKE.
const ALIKE = .6;
const GROUPS = `
own custom new another any
gpu cuda device
distributed gpu multi launcher torchrun ddp processes parallel nodes
embedding vector feature representation
k knn neighbour neighbor nearest
inherit inheritance base config override
distil distillation distill student teacher
metric evaluation evaluate measure recall score
test evaluate evaluation
checkpoint weights pretrained
hub hubness
video clip
caption text sentence annotation
delete remove
add insert append update
significance significant interval difference better
confidence probability sure certain uncertainty calibration threshold abstain
log logging tensorboard wandb mlflow
speed latency fast throughput seconds
auth authentication login password token
container docker
api route endpoint http rest
dataset data corpus
download source licence license
fp16 amp mixed precision bf16 half
oom memory
moment grounding localization timestamp temporal
hyperparameter option setting value argument parameter
sweep grid ablation study
transform normalisation normalization rerank debias debiased
database index engine store
server service serve deploy production
loss objective
encoder tower backbone
finetune tune train
inference predict inferencer search
error message exception troubleshooting faq
plot figure picture draw visualise visualize
compress compression quantize quantization int8
multilingual language translation
std standard deviation
slow bottleneck speed
hurt harmful worse drop lower
reproduce result table paper
install pip setup requirements
resume interrupt restart
spam adversarial
several multiple
`;

// Words of a question that no section answers by itself.
const ASIDE = new Set(`
a an and are as at be by can could do does for from get give have how i if in into is it its me my
need of on or shall should so than that the their there these they this to use used using was we
what when where which who why will with would you your
`.trim().split(/\s+/));
/** Words without these, unless nothing else is left. */
const telling = (all) => {
  const told = all.filter((word) => !ASIDE.has(word.toLowerCase()));
  return told.length ? told : all;
};

const stemmer = new Stemmer(); // Sphinx's
/** A function of a word that is asked once for each. */
const once = (make, made = new Map()) => (word) =>
  made.get(word) ?? made.set(word, make(word)).get(word);
const british = (word) => word.replace(/^(.{3,}?)iz(?=[eia])/, '$1is');
const stem = once((word) => stemmer.stemWord(british(word.toLowerCase())));
/** `BatchSampler` is Batch and Sampler. */
const humps = (word) => word
  .replace(/([\p{Ll}\p{N}])(\p{Lu})/gu, '$1 $2')
  .replace(/(\p{Lu})(\p{Lu}\p{Ll}{2})/gu, '$1 $2')
  .split(' ');
/** `MSR-VTT` is msr, vtt and msrvtt; `BatchSampler` is batch, sampler and batchsampler. */
const forms = once((one) => {
  const parts = one.split(/[-_@/]/).flatMap(humps);
  return [...parts, ...(parts.length > 1 ? [parts.join('')] : [])].map(stem);
});
const pieces = (text) => text.match(/[\p{L}\p{N}]+(?:[-_@/][\p{L}\p{N}]+)*/gu) ?? [];
const words = (text) => pieces(text).flatMap(forms);
/** Of a query: a word as it stands, where some section has it, else its parts. */
const asked = (query) => {
  const parts = telling(query.match(/[\p{L}\p{N}]+/gu) ?? [])
    .flatMap((word) => (having.has(stem(word)) ? [word] : humps(word)));
  return [...new Set(parts.map(stem))];
};
const sum = (values) => values.reduce((a, b) => a + b, 0);

const groups = GROUPS.trim().split('\n').map(words);
/** The words that match one, with what they count. */
const matching = (word) => {
  const others = groups.filter((group) => group.includes(word)).flat();
  return new Map([...others.map((other) => [other, ALIKE]), [word, 1]]);
};

const sections = SECTIONS.map(([page, anchor, titles, further, text]) => {
  const counts = new Map();
  const all = words([text, page, ...titles, ...further].join(' '));
  all.forEach((word) => counts.set(word, (counts.get(word) ?? 0) + 1));
  const names = [titles[0].replace(/^[\w.]+\./, ''), ...(titles.length === 1 ? [page] : []), ...further];
  const named = names.map((name) => new Set(telling(pieces(name)).flatMap(forms)));
  return {page, anchor, titles, counts, length: all.length, names: named};
});
const mean = sum(sections.map((section) => section.length)) / sections.length;
const having = new Map();
for (const {counts} of sections)
  for (const word of counts.keys()) having.set(word, (having.get(word) ?? 0) + 1);
const rarity = (word) => Math.log((sections.length + 1) / ((having.get(word) ?? 0) + .5));

/** The score of a section for the words of a query, [[rarity, words that match], ...]. */
const score = ({page, titles, names, counts, length}, terms, query) => {
  const whole = sum(terms.map(([rare]) => rare));
  let text = 0, had = 0;
  for (const [rare, matches] of terms) {
    const found = [...matches].filter(([word]) => counts.has(word));
    had += rare * Math.max(0, ...found.map(([, counted]) => counted));
    text += rare * Math.max(0, ...found.map(([word, counted]) => {
      const n = counts.get(word);
      return counted * 2 * n / (n + .25 + .75 * length / mean);
    }));
  }
  const named = names.map((name) => {
    const of = (word) => Math.max(...terms.map(([rare, matches]) => rare * (matches.get(word) ?? 0)));
    const common = Math.min(had, sum([...name].map(of)));
    return common * common / Math.sqrt(whole * Math.max(common, sum([...name].map(rarity))));
  });
  // Reference: what a page explains comes first, except for an identifier in full.
  const rows = page === 'model_zoo' && titles.length > 1;
  const reference = rows || /^(api|equations)/.test(page);
  const full = query && titles[0].endsWith(`.${query}`);
  const kind = full ? 2 : reference ? .5 : titles.length === 1 ? 1.1 : 1;
  return kind * (text + 5 * Math.max(...named)) * had / whole;
};

/** The twenty best sections, best first, as [score, section]. */
const ranked = (query) => {
  const terms = asked(query).map((word) => [rarity(word), matching(word)]);
  const scored = sections.map((section) => [score(section, terms, query), section]);
  return scored.filter(([x]) => x > 0).sort(([a], [b]) => b - a).slice(0, 20);
};

/** Sphinx shows what this returns, from the last to the first. */
Search._performSearch = (query) => ranked(query).map(([x, {page, anchor, titles}]) => {
  const place = titles.length > 1 ? `#${anchor}` : '';
  return [page, [...titles].reverse().join(' > '), place, null, x, `${page}.md`, 'text'];
}).reverse();
