import { mkdir, mkdtemp, writeFile } from 'node:fs/promises'
import { join, relative } from 'node:path'
import { cpuOf, interleave, median, now, table } from './measure.mjs'
import { inFolder, ROOT, startPegboard, untilReady, writeConfig } from './pegboard.mjs'

const FILES = 20_000
const FOLDERS = 1_000
/** One folder is large, as those of pictures and logs are. */
const IN_ONE = 2_000
/** Short ones are repeated more often: others use the machine, too. */
const ROUNDS = { short: 15, long: 5 }
const CALLS = 20
/** Files a request: what the reference server is asked for at once when all have to be read. */
const BATCH = 200
const SERVER = join(ROOT, 'node_modules/@modelcontextprotocol/server-filesystem/dist/index.js')
const WORDS =
  'const let function return export import from await async class interface readonly string number value index result error options signal'.split(
    ' ',
  )
const KINDS = ['ts', 'test.ts', 'md', 'json', 'css']

/** Text that reads like code, the same in every run: about 2 KB a file, and a note in one file of fifty. */
function textOf(file) {
  let seed = file + 1
  const pick = () => {
    seed = (Math.imul(seed, 1_103_515_245) + 12_345) & 0x7fffffff
    return WORDS[(seed >> 8) % WORDS.length]
  }
  const lines = Array.from({ length: 40 }, () => `  ${Array.from({ length: 8 }, pick).join(' ')}`)
  if (file % 50 === 7) lines[20] = `  // TODO(team${file % 9}): look at ticket ${file}`
  return `${lines.join('\n')}\n`
}

async function makeTree(root) {
  const pathOf = (file) => {
    const name = `file-${file}.${KINDS[file % KINDS.length]}`
    if (file < IN_ONE) return join(root, 'large', name)
    const folder = file % FOLDERS
    return join(root, `part-${folder % 20}`, `group-${folder}`, name)
  }
  for (let at = 0; at < FILES; at += 500)
    await Promise.all(
      Array.from({ length: 500 }, async (_, index) => {
        const path = pathOf(at + index)
        await mkdir(join(path, '..'), { recursive: true })
        await writeFile(path, textOf(at + index))
      }),
    )
  return pathOf
}

const textIn = (result) => {
  if (result.isError) throw new Error(JSON.stringify(result.content).slice(0, 300))
  return result.content.map((block) => block.text ?? '').join('\n')
}
const structured = (result) => {
  if (result.isError) throw new Error(JSON.stringify(result.content).slice(0, 300))
  return result.structuredContent
}

/** The module and the reference server, both behind one Pegboard: each pair of ways has to give the same answer. */
function scenes(client, root, pathOf) {
  const own = async (tool, input) => structured(await client.call(`filesystem__${tool}`, input))
  const other = async (tool, input) => textIn(await client.call(`reference__${tool}`, input))
  const near = (path) => relative(root, path)
  const group = near(join(pathOf(IN_ONE + 5), '..'))
  const some = Array.from({ length: 50 }, (_, index) => pathOf(IN_ONE + index * 37))
  const namesIn = (listing) => listing.split('\n').map((line) => line.replace(/^\[\w+\] /, ''))
  const lastPart = (path) => path.slice(path.lastIndexOf('/') + 1)

  /** What a client has to do there: name the files, read them all, and look into them itself. */
  const searchByReading = async (pattern) => {
    const files = (await other('search_files', { path: root, pattern: '**/*.ts' })).split('\n')
    const matches = []
    for (let at = 0; at < files.length; at += BATCH) {
      const text = await other('read_multiple_files', { paths: files.slice(at, at + BATCH) })
      // Each file is its path, a colon and its text, with a line between two of them.
      for (const part of text.split('\n---\n')) {
        const end = part.indexOf(':\n')
        const path = part.slice(0, end)
        for (const [index, line] of part
          .slice(end + 2)
          .split('\n')
          .entries())
          if (pattern.test(line)) matches.push(`${near(path)}:${index + 1}`)
      }
    }
    return matches.sort()
  }
  const grep = async (pattern) => {
    const { matches } = await own('grep', { pattern, include: '*.ts', max_results: 2000 })
    return matches.map(({ path, line }) => `${path}:${line}`).sort()
  }
  const pair = (scene, calls, mine, yours) => ({ scene, calls, mine, yours })
  return [
    pair(
      'read a file of 2 KB',
      CALLS,
      async () => (await own('read', { path: near(some[0]) })).content,
      () => other('read_text_file', { path: some[0] }),
    ),
    pair(
      'read 50 files at once',
      CALLS / 4,
      async () => (await own('read_many', { paths: some.map(near) })).files.length,
      async () => (await other('read_multiple_files', { paths: some })).split('\n---\n').length,
    ),
    pair(
      'list a folder of 18',
      CALLS,
      async () => (await own('ls', { path: group })).entries.map(({ path }) => lastPart(path)),
      async () => namesIn(await other('list_directory', { path: join(root, group) })).sort(),
    ),
    pair(
      `list a folder of ${IN_ONE}`,
      CALLS / 4,
      async () => (await own('ls', { path: 'large', limit: 5000 })).entries.map(({ path }) => lastPart(path)),
      async () => namesIn(await other('list_directory', { path: join(root, 'large') })).sort(),
    ),
    pair(
      'find *.test.ts',
      1,
      async () => (await own('find', { pattern: '**/*.test.ts', max_results: 5000 })).paths.sort(),
      async () => (await other('search_files', { path: root, pattern: '**/*.test.ts' })).split('\n').map(near).sort(),
    ),
    pair(
      'grep a word in *.ts',
      1,
      () => grep('TODO'),
      () => searchByReading(/TODO/),
    ),
    pair(
      'grep an expression in *.ts',
      1,
      () => grep('TODO\\(\\w+\\): .*\\d$'),
      () => searchByReading(/TODO\(\w+\): .*\d$/),
    ),
    pair(
      'grep one nothing helps with',
      1,
      () => grep('\\w+ ticket \\d\\d+7\\b'),
      () => searchByReading(/\w+ ticket \d\d+7\b/),
    ),
  ]
}

/** The bundled filesystem module against the reference server on a tree of 20,000 files, both through Pegboard. */
export async function measureFiles() {
  return await inFolder(async (folder) => {
    const root = join(folder, 'tree')
    const pathOf = await makeTree(root)
    const config = await writeConfig(
      folder,
      { reference: { command: process.execPath, args: [SERVER, root] } },
      { exposure: { mode: 'direct' }, modules: { filesystem: { config: { root } } } },
    )
    const client = startPegboard({ config, state: await mkdtemp(join(folder, 'state-')), cwd: folder })
    try {
      await client.connect()
      await untilReady(client, [{ id: 'reference', tools: 10 }])
      const rows = []
      for (const { scene, calls, mine, yours } of scenes(client, root, pathOf)) {
        const [ours, theirs] = [JSON.stringify(await mine()), JSON.stringify(await yours())]
        if (ours !== theirs) throw new Error(`${scene}: ${ours.slice(0, 200)} is not ${theirs.slice(0, 200)}`)
        const spent = async (work) => {
          const [began, before] = [now(), cpuOf(client.pid)]
          for (let call = 0; call < calls; call++) await work()
          return { ms: (now() - began) / calls, cpu: (cpuOf(client.pid) - before) / calls }
        }
        const [own, other] = await interleave([mine, yours], calls === 1 ? ROUNDS.long : ROUNDS.short, spent)
        const ms = (side) => median(side.map((one) => one.ms))
        rows.push({
          scene,
          'filesystem ms': ms(own),
          'reference ms': ms(other),
          '× as fast': median(own.map((one, round) => other[round].ms / one.ms)),
          'own cpu ms': median(own.map((one) => one.cpu)),
        })
      }
      const title = `filesystem against @modelcontextprotocol/server-filesystem, both through Pegboard (${FILES} files; goals: 1 × as fast, grep 3 ×)`
      return { rows, text: table(title, rows) }
    } finally {
      await client.close()
    }
  })
}
