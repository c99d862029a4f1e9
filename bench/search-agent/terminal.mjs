// A model that is a person, or a program that reads and writes lines, with the interface of bench/tasks/models.mjs.
import { createInterface } from 'node:readline'

const HELP = `Commands, one a line:
  tools                list the tools
  NAME {arguments}     call a tool, with JSON arguments
  done                 the request is done; go to the next
`

/** @param input lines of commands @param write shows text */
export function openTerminal({ input, write }) {
  const lines = createInterface({ input })[Symbol.asyncIterator]()
  write(HELP)
  return {
    open(request, tools, instructions = '') {
      let calls = 0
      write(`\nRequest: ${request}\n`)
      return {
        async next() {
          for (;;) {
            write('> ')
            const { value, done } = await lines.next()
            const [, name = '', rest] = /^\s*(\S*)\s*(.*)$/.exec(value ?? '') ?? []
            if (done || name === 'done') return []
            if (name === '') continue
            if (name === 'tools') {
              write(`${instructions}\n${tools.map((tool) => JSON.stringify(tool)).join('\n')}\n`)
              continue
            }
            try {
              return [{ id: String(++calls), name, args: JSON.parse(rest || '{}') }]
            } catch (error) {
              write(`${error.message}\n${HELP}`)
            }
          }
        },
        answer: (_id, text) => write(`${text}\n`),
      }
    },
  }
}
