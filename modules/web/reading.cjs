// Runs in a worker (reader.ts starts it), because a page may be made so that reading it takes minutes, and a worker can be ended.
// Plain JavaScript, because a thread is started from a file and the modules are bundled.
const { parentPort } = require('node:worker_threads')
const { Readability } = require('@mozilla/readability')
const { gfm } = require('@joplin/turndown-plugin-gfm')
const Turndown = require('turndown')
const domino = require('@mixmark-io/domino')

// Its lists are arrays or act like arrays, but not all can be iterated over.
const probe = domino.createDocument('<p></p>')
for (const list of [probe.getElementsByTagName('p'), probe.body.children, probe.body.attributes, probe.childNodes]) {
  const prototype = Object.getPrototypeOf(list)
  if (!(Symbol.iterator in prototype))
    Object.defineProperty(prototype, Symbol.iterator, {
      value: function* () {
        for (let at = 0; at < this.length; at++) yield this[at] ?? this.item(at)
      },
    })
}

const UNREAD =
  'script,style,noscript,template,iframe,object,embed,svg,canvas,form button,input,select,textarea,dialog,[hidden],[aria-hidden="true"]'

function open(html, url) {
  const document = domino.createDocument(html, true)
  for (const name of ['documentURI', 'baseURI', 'URL'])
    Object.defineProperty(document, name, { value: url, configurable: true })
  return document
}

function converter(url) {
  const turndown = new Turndown({
    headingStyle: 'atx',
    codeBlockStyle: 'fenced',
    bulletListMarker: '-',
    emDelimiter: '*',
    hr: '---',
  })
  turndown.use(gfm)
  const whole = (given) => {
    try {
      const found = new URL(given, url)
      return found.protocol === 'http:' || found.protocol === 'https:' || found.protocol === 'mailto:'
        ? found.href
        : undefined
    } catch {
      return undefined
    }
  }
  turndown.addRule('link', {
    filter: (node) => node.nodeName === 'A',
    replacement(content, node) {
      const href = node.getAttribute('href') ?? ''
      const target = href === '' || href.startsWith('#') ? undefined : whole(href)
      const text = content.trim().replaceAll(/\s*\n\s*/g, ' ')
      return target === undefined || text === ''
        ? content
        : `[${text}](${target.replaceAll('(', '%28').replaceAll(')', '%29')})`
    },
  })
  turndown.addRule('picture', {
    filter: 'img',
    replacement(_content, node) {
      const target = whole(node.getAttribute('src') ?? '')
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

const clean = (markdown) =>
  markdown
    .replaceAll(/[ \t]+$/gm, '')
    .replaceAll(/\n{3,}/g, '\n\n')
    .trim()
const line = (text) => (text ?? '').replaceAll(/\s+/g, ' ').trim()
const withoutEmpty = (values) => Object.fromEntries(Object.entries(values).filter(([, value]) => value))

function read({ html, url }) {
  const document = open(html, url)
  const title = line(document.title)
  const language = line(document.documentElement?.getAttribute('lang'))
  const article = new Readability(document, { serializer: (node) => node, keepClasses: true }).parse()
  const turndown = converter(url)
  // Lists of links and the like have no content that stands out, and all of it is wanted.
  if (article && article.length >= 140) {
    const facts = withoutEmpty({
      byline: line(article.byline),
      published: line(article.publishedTime),
      site: line(article.siteName),
      language: line(article.lang) || language,
      description: line(article.excerpt),
    })
    return {
      title: line(article.title) || title,
      markdown: clean(turndown.turndown(article.content)),
      whole: false,
      ...facts,
    }
  }
  const again = open(html, url)
  const description = line(again.querySelector('meta[name="description"]')?.getAttribute('content'))
  for (const node of [...again.querySelectorAll(UNREAD)]) node.remove()
  return {
    title,
    markdown: clean(turndown.turndown(again.body)),
    whole: true,
    ...withoutEmpty({ language, description }),
  }
}

function select({ html, url, each, fields }) {
  const document = open(html, url)
  // What a program says is no text of the page.
  for (const node of [...document.querySelectorAll('script,style,noscript,template')]) node.remove()
  return [...document.querySelectorAll(each)].map((row) => {
    const found = Object.entries(fields).map(([name, [selector, attribute]]) => {
      const node = row.querySelector(selector)
      return [name, line(attribute ? node?.getAttribute(attribute) : node?.textContent)]
    })
    return Object.fromEntries(found)
  })
}

parentPort.on('message', (job) => parentPort.postMessage({ result: job.kind === 'read' ? read(job) : select(job) }))
