// The module of the soak servers.
import { appendFileSync } from 'node:fs'
import { join } from 'node:path'

const input = {
  type: 'object',
  properties: { n: { type: 'string' }, ms: { type: 'number' }, text: { type: 'string' } },
}
const later = (ms, value) => new Promise((done) => setTimeout(() => done(value), ms))
const run = ({ n, ms = 0 }) => {
  appendFileSync(join(process.env.HOME, 'runs.txt'), `${n}\n`)
  return later(ms, { n })
}
export default {
  name: 'work',
  description: 'Things to do.',
  tools: {
    echo: { description: 'Says what it is told.', input, effect: 'read', run: ({ text }) => ({ text }) },
    wait: { description: 'Takes its time.', input, effect: 'read', run: ({ ms }) => later(ms, { waited: ms }) },
    once: { description: 'Writes down that it ran.', input, effect: 'write', run },
    again: {
      description: 'Writes down that it ran, and may run again.',
      input,
      effect: 'write',
      idempotent: true,
      run,
    },
  },
}
