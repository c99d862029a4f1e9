import { StringDecoder } from 'node:string_decoder'
import { type Io, UsageError } from './io.ts'

const RETURN = /[\r\n]/
const INTERRUPT = '\u0003'
const END = '\u0004'
const ERASERS = new Set(['\u007f', '\b'])

type Terminal = Io['input'] & { setRawMode?(isRaw: boolean): unknown }

/** Reads a secret: one line that the terminal does not show, or all of stdin without its last line break. */
export async function readHidden(prompt: string, io: Io, maxChars: number): Promise<string> {
  const input: Terminal = io.input
  if (input.isTTY !== true) return await readAll(io, maxChars)
  if (!input.setRawMode) throw new UsageError('this terminal would show the value; pipe it instead')
  // First, because a fast answer to the prompt would be shown.
  input.setRawMode(true)
  try {
    io.stderr(prompt)
    return await readLine(io, maxChars)
  } finally {
    input.setRawMode(false)
    input.pause()
    io.stderr('\n')
  }
}

function readLine({ input, stop }: Io, maxChars: number): Promise<string> {
  const decoder = new StringDecoder('utf8')
  return new Promise((resolve, reject) => {
    let typed: string[] = []
    const finishReading = (finish: () => void): void => {
      input.off('data', onData)
      input.off('end', abort)
      stop.removeEventListener('abort', abort)
      finish()
    }
    const abort = (): void => finishReading(() => reject(new UsageError('no value was given')))
    const onData = (chunk: Buffer | string): void => {
      for (const char of decoder.write(Buffer.from(chunk))) {
        if (char === INTERRUPT) {
          abort()
          return
        }
        if (char === END || RETURN.test(char)) {
          finishReading(() => resolve(typed.join('')))
          return
        }
        if (ERASERS.has(char)) typed = typed.slice(0, -1)
        else if (typed.length <= maxChars) typed.push(char)
      }
    }
    input.on('data', onData)
    input.once('end', abort)
    stop.addEventListener('abort', abort)
  })
}

async function readAll({ input }: Io, maxChars: number): Promise<string> {
  const decoder = new StringDecoder('utf8')
  let text = ''
  for await (const chunk of input) {
    text += decoder.write(Buffer.from(chunk as Buffer | string))
    if (text.length > maxChars + 2) break
  }
  return text.replace(/\r?\n$/, '')
}
