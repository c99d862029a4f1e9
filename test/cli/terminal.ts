import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { PassThrough } from 'node:stream'
import type { Io } from '../../src/cli/io.ts'
import { run } from '../../src/cli/run-command.ts'

/** A folder with files, removed by `remove`. */
export function folder(files: Readonly<Record<string, string | object>>): { readonly dir: string; remove(): void } {
  const dir = mkdtempSync(join(tmpdir(), 'pegboard-cli-'))
  for (const [name, content] of Object.entries(files)) {
    mkdirSync(dirname(join(dir, name)), { recursive: true })
    writeFileSync(join(dir, name), typeof content === 'string' ? content : JSON.stringify(content, null, 1))
  }
  return { dir, remove: () => rmSync(dir, { recursive: true, force: true }) }
}

export interface Terminal {
  readonly io: Io
  out(): string
  err(): string
  stop(): void
  readonly input: PassThrough
  readonly output: PassThrough
}

/**
 * A terminal in `cwd`, with its state in a subfolder.
 * @param isTTY true if a person can type
 */
export function terminal(cwd: string, isTTY = true): Terminal {
  const text = { out: '', err: '' }
  const stop = new AbortController()
  const input = Object.assign(new PassThrough(), { isTTY })
  const output = new PassThrough()
  const io: Io = {
    stdout: (more) => {
      text.out += more
    },
    stderr: (more) => {
      text.err += more
    },
    input,
    claimOutput: () => output,
    env: { PATH: process.env['PATH'], HOME: cwd, PEGBOARD_STATE_DIR: join(cwd, '.state') },
    cwd,
    stop: stop.signal,
    self: { node: '/usr/bin/node', script: '/opt/pegboard/dist/cli/main.js', called: 'pegboard' },
  }
  return {
    io,
    out: () => text.out,
    err: () => text.err,
    stop: () => stop.abort(new DOMException('SIGTERM', 'AbortError')),
    input,
    output,
  }
}

/** Runs one command to its end. */
export async function pegboard(cwd: string, ...argv: string[]): Promise<{ code: number; out: string; err: string }> {
  const { io, out, err } = terminal(cwd)
  const code = await run(argv, io)
  return { code, out: out(), err: err() }
}

/** A drop-in for the tests: a read, a write, a hidden parameter, an internal tool and a failure. */
export const notesModule = `
const notes = new Map()
export default {
  name: 'notes',
  description: 'Short notes.',
  tools: {
    add: {
      description: 'Keep a note under a title, replacing the old one.',
      effect: 'write',
      aliases: ['jot down'],
      input: {
        type: 'object',
        properties: { title: { type: 'string', description: 'Its name.' }, text: { type: 'string' }, stars: { type: 'integer', default: 1 }, encoding: { type: 'string', default: 'utf8' } },
        required: ['title', 'text'],
      },
      hidden: ['encoding'],
      run: ({ title, text, stars }) => { notes.set(title, text); return { title, length: text.length, stars } },
    },
    read: {
      description: 'Read the note with a title; fails when there is none.',
      effect: 'read',
      input: { type: 'object', properties: { title: { type: 'string' } }, required: ['title'] },
      run: ({ title }) => notes.get(title) ?? { error: 'No note called ' + title + '.' },
    },
    rebuild: { description: 'Builds the index of notes again.', effect: 'write', internal: true, run: () => 'done' },
  },
}
`
