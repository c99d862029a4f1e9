import { execFileSync } from 'node:child_process'
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { parseList } from '../../modules/todo/format.ts'
import { temporaryFolder } from '../app.ts'
import { startAppWithClient } from './app-with-client.ts'

/** Opening a pipe blocks until a writer exists; the writer here releases it at the end. */
function pipe(path: string): string {
  execFileSync('mkfifo', [path])
  onTestFinished(() => {
    const script = `for i in 1 2 3 4 5 6 7 8; do timeout 1 sh -c ': > "$0"' "$0" || exit 0; done`
    execFileSync('sh', ['-c', script, path], { stdio: 'ignore' })
  })
  return path
}

test.skipIf(process.platform !== 'linux')(
  'a pipe or device in place of a board file counts as no file and blocks no call',
  async () => {
    const dir = temporaryFolder()
    const host_file = pipe(join(dir, 'host.json'))
    const directory_file = pipe(join(dir, 'boards.json'))
    const { fails, call } = await startAppWithClient(
      {
        bbs: { config: { host_file, directory_file } },
        archives: { config: { enabled: true, index_file: '/dev/zero' } },
      },
      { dir, settings: { execution: { timeoutMs: 20_000 } } },
    )
    const asked = Array.from({ length: 6 }, () => fails('bbs.this_bbs', { kind: 'groups' }))
    for (const refusal of await Promise.all(asked)) expect(refusal).toMatchObject({ code: 'E_BACKEND_UNAVAILABLE' })
    expect(await call('bbs.bbs_directory', { mode: 'list', kind: 'name' })).toMatchObject({ total: 0 })
    expect(await fails('archives.external_archives', { query: 'fidonet' })).toMatchObject({
      message: 'external_archives index unavailable.',
    })
  },
  120_000,
)

test.skipIf(process.platform !== 'linux')(
  'a pipe in place of a store counts as no store and blocks no call',
  async () => {
    const dir = temporaryFolder()
    const modules = { memory: { config: { enabled: true } } }
    const first = await startAppWithClient(modules, { dir })
    await first.call('memory.task_create', { subject: 'One' })
    await first.app.stop()
    const [store = ''] = readdirSync(join(dir, 'state/kv')).filter((name) => name.endsWith('.json'))
    execFileSync('mv', [join(dir, 'state/kv', store), join(dir, 'kept.json')])
    pipe(join(dir, 'state/kv', store))
    const { fails } = await startAppWithClient(modules, { dir, settings: { execution: { timeoutMs: 20_000 } } })
    const asked = Array.from({ length: 6 }, () => fails('memory.task_create', { subject: 'Two' }))
    for (const refusal of await Promise.all(asked)) expect(refusal).toMatchObject({ code: 'E_BACKEND_UNAVAILABLE' })
  },
  120_000,
)

const llm = { services: { llm: { baseUrl: 'http://127.0.0.1:9/v1', model: 'm' } } }

test.each([
  ['Latin-1', Buffer.from('- [ ] [Created](2026-01-01 00:00) | Müsli\n', 'latin1')],
  ['UTF-16', Buffer.from('\ufeff- [ ] [Created](2026-01-01 00:00) | x\n', 'utf16le')],
  ['half a letter', Buffer.concat([Buffer.from('- [ ] [Created](2026-01-01 00:00) | M'), Buffer.from([0xc3])])],
])(
  'an unusable contact list (%s) is reported by name and stays unchanged',
  async (_what, bytes) => {
    const dir = temporaryFolder()
    mkdirSync(join(dir, 'state/files/contacts'), { recursive: true })
    const [todo, active] = [join(dir, 'state/files/TODO.md'), join(dir, 'state/files/contacts/ACTIVE.md')]
    for (const file of [todo, active]) writeFileSync(file, bytes)
    const { fails } = await startAppWithClient({ contacts: { config: { manage: true } } }, { dir, settings: llm })
    expect(await fails('todo.todo_list')).toMatchObject({
      code: 'E_TOOL_FAILED',
      message: 'TODO.md is not UTF-8 text.',
    })
    expect(await fails('contacts.contacts_upsert', { contact_id: 'tg:1', name: 'A' })).toMatchObject({
      message: 'contacts/ACTIVE.md is not UTF-8 text.',
    })
    for (const file of [todo, active]) expect(readFileSync(file)).toEqual(bytes)
  },
  120_000,
)

test('a list with half a million lines below one entry is read quickly', () => {
  const notes = Array.from({ length: 500_000 }, () => '  x')
  const text = ['- [ ] [Created](2026-01-01 00:00) | One', ...notes, '- [ ] [Created](2026-01-01 00:00) | Two'].join(
    '\n',
  )
  const began = Date.now()
  const items = parseList(text, 'wip').body.filter((one) => typeof one === 'object')
  expect(items.map(({ content, notes }) => [content, notes.length])).toEqual([
    ['One', 500_000],
    ['Two', 0],
  ])
  expect(Date.now() - began).toBeLessThan(60_000)
}, 600_000)
