// Scores of the site's search: first what a page names as its search words, then a class or function
// of just this name, then titles, text, and the other entries of the API reference.
var Scorer = { // not const: searchtools.js declares it, too
  score: ([page, , , what, score, , kind]) => {
    if (kind === 'index') return score + 200;
    if (score >= 16 && /^Python (class|function)/.test(what)) return score + 10;
    if (page.startsWith('api/')) return score - 12;
    return kind === 'title' ? score + 5 : score;
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: {0: 15, 1: 5, 2: -5},
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
