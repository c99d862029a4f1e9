// Runs in a thread of its own (parse-document.ts starts it): a small YAML text may take minutes to parse, and a thread can be ended.
// Plain JavaScript, because a thread is started from a file and the rest is bundled.
const { parentPort, workerData } = require('node:worker_threads')

/** Of all objects together. The largest document that is known has a third of them. Each name costs much, each part little. */
const MAX_NAMES = 100_000
const MAX_PARTS = 3_000_000

try {
  const value = parsed(workerData)
  const fault = crowdIn(value)
  parentPort.postMessage(fault === undefined ? { json: JSON.stringify(value) } : { fault })
} catch (error) {
  parentPort.postMessage({ fault: `it is neither JSON nor YAML: ${String(error?.message).split('\n', 1)[0]}` })
}

function parsed(text) {
  if (/^\s*[{[]/.test(text)) {
    try {
      return JSON.parse(text)
    } catch {
      // YAML is wider, and says where it is wrong.
    }
  }
  return require('yaml').parse(text, { merge: true, maxAliasCount: 1_000, logLevel: 'error' }) ?? null
}

/** An alias of YAML counts as often as it is used: so often it is written out. */
function crowdIn(value) {
  const names = new Set()
  const open = [value]
  for (let parts = 0; open.length > 0; parts++) {
    if (parts > MAX_PARTS) return `it has more than ${MAX_PARTS} parts`
    const node = open.pop()
    if (typeof node !== 'object' || node === null) continue
    if (Array.isArray(node)) for (const one of node) open.push(one)
    else
      for (const name of Object.keys(node)) {
        names.add(name)
        open.push(node[name])
      }
    if (names.size > MAX_NAMES) return `it has more than ${MAX_NAMES} different names`
  }
  return undefined
}
