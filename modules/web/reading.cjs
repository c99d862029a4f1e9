// Reads pages in a worker that reader.ts starts and can stop, because a hostile page can take minutes. Plain JavaScript, because
// a thread starts from a file and the modules are bundled.
const { parentPort } = require('node:worker_threads')
const { Readability } = require('@mozilla/readability')
const { gfm } = require('@joplin/turndown-plugin-gfm')
const Turndown = require('turndown')
const domino = require('@mixmark-io/domino')

// Some lists of domino are array-like but not iterable.
const sample = domino.createDocument('<p></p>')
for (const list of [
  sample.getElementsByTagName('p'),
  sample.body.children,
  sample.body.attributes,
  sample.childNodes,
]) {
  const prototype = Object.getPrototypeOf(list)
  if (!(Symbol.iterator in prototype))
    Object.defineProperty(prototype, Symbol.iterator, {
      value: function* () {
        for (let index = 0; index < this.length; index++) yield this[index] ?? this.item(index)
      },
    })
}

/** Elements without readable text. */
const UNREADABLE =
  'script,style,noscript,template,iframe,object,embed,svg,canvas,form button,input,select,textarea,dialog,[hidden],[aria-hidden="true"]'

function parseDocument(html, url) {
  const document = domino.createDocument(html, true)
  for (const name of ['documentURI', 'baseURI', 'URL'])
    Object.defineProperty(document, name, { value: url, configurable: true })
  return document
}

function createConverter(url) {
  const turndown = new Turndown({
    headingStyle: 'atx',
    codeBlockStyle: 'fenced',
    bulletListMarker: '-',
    emDelimiter: '*',
    hr: '---',
  })
  turndown.use(gfm)
  const absoluteUrl = (href) => {
    try {
      const target = new URL(href, url)
      return target.protocol === 'http:' || target.protocol === 'https:' || target.protocol === 'mailto:'
        ? target.href
        : undefined
    } catch {
      return undefined
    }
  }
  turndown.addRule('link', {
    filter: (node) => node.nodeName === 'A',
    replacement(content, node) {
      const href = node.getAttribute('href') ?? ''
      const target = href === '' || href.startsWith('#') ? undefined : absoluteUrl(href)
      const text = content.trim().replaceAll(/\s*\n\s*/g, ' ')
      return target === undefined || text === ''
        ? content
        : `[${text}](${target.replaceAll('(', '%28').replaceAll(')', '%29')})`
    },
  })
  turndown.addRule('picture', {
    filter: 'img',
    replacement(_content, node) {
      const target = absoluteUrl(node.getAttribute('src') ?? '')
      const text = (node.getAttribute('alt') ?? '').replaceAll(/[\s[\]]+/g, ' ').trim()
      return target === undefined || target.startsWith('mailto:')
        ? text
        : `![${text}](${target.replaceAll('(', '%28').replaceAll(')', '%29')})`
    },
  })
  turndown.addRule('item', {
    filter: 'li',
    replacement(content, node) {
      const list = node.parentNode
      const items = [...list.children].filter((one) => one.nodeName === 'LI')
      const start = Number.parseInt(list.getAttribute('start') ?? '1', 10) || 1
      const mark = list.nodeName === 'OL' ? `${start + items.indexOf(node)}. ` : '- '
      return mark + content.trim().replaceAll('\n', `\n${' '.repeat(mark.length)}`) + (node.nextSibling ? '\n' : '')
    },
  })
  return turndown
}

const tidyMarkdown = (markdown) =>
  markdown
    .replaceAll(/[ \t]+$/gm, '')
    .replaceAll(/\n{3,}/g, '\n\n')
    .trim()
const oneLine = (text) => (text ?? '').replaceAll(/\s+/g, ' ').trim()
const withoutEmpty = (values) => Object.fromEntries(Object.entries(values).filter(([, value]) => value))

function read({ html, url }) {
  const document = parseDocument(html, url)
  const title = oneLine(document.title)
  const article = new Readability(document, { serializer: (node) => node, keepClasses: true }).parse()
  const converter = createConverter(url)
  // Pages such as lists of links have no main content, so all of their text is returned.
  if (article && article.length >= 140)
    return {
      title: oneLine(article.title) || title,
      markdown: tidyMarkdown(converter.turndown(article.content)),
      ...withoutEmpty({ byline: oneLine(article.byline), published: oneLine(article.publishedTime) }),
    }
  // Readability has changed the document.
  const page = parseDocument(html, url)
  for (const node of [...page.querySelectorAll(UNREADABLE)]) node.remove()
  return { title, markdown: tidyMarkdown(converter.turndown(page.body)) }
}

function select({ html, url, each, fields }) {
  const document = parseDocument(html, url)
  // Scripts and styles are not text of the page.
  for (const node of [...document.querySelectorAll('script,style,noscript,template')]) node.remove()
  return [...document.querySelectorAll(each)].map((row) => {
    const values = Object.entries(fields).map(([name, [selector, attribute]]) => {
      const node = row.querySelector(selector)
      return [name, oneLine(attribute ? node?.getAttribute(attribute) : node?.textContent)]
    })
    return Object.fromEntries(values)
  })
}

parentPort.on('message', (job) => parentPort.postMessage({ result: job.kind === 'read' ? read(job) : select(job) }))
