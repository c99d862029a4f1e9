// What the worker reads pages with. A file of its own, since it is read in the worker alone, and bundled as one.
const { Readability } = require('@mozilla/readability')
const { gfm } = require('@joplin/turndown-plugin-gfm')
const Turndown = require('turndown')
const domino = require('@mixmark-io/domino')

module.exports = { domino, gfm, Readability, Turndown }
