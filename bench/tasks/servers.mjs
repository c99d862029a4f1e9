// The servers that the jobs use, and others that are only listed, until there are 300 tools.
import { execFileSync } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const here = (path) => fileURLToPath(new URL(path, import.meta.url))
const DEFINITIONS = here('../../training/atlas/definitions')

/** The program of an installed package. */
function programOf(name) {
  for (const folder of ['.', '../../test/optional', '../..']) {
    const root = here(`${folder}/node_modules/${name}`)
    if (!existsSync(root)) continue
    const { bin } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
    return join(root, typeof bin === 'string' ? bin : Object.values(bin)[0])
  }
  throw new Error(`${name} is not installed: npm ci --prefix bench/tasks --ignore-scripts`)
}

const POSTGRES = process.env.PEGBOARD_TEST_POSTGRES ?? 'postgresql://root@127.0.0.1/test'
const MYSQL = process.env.PEGBOARD_TEST_MYSQL ?? 'mysql://root@127.0.0.1:3306/test'
const REDIS = process.env.PEGBOARD_TEST_REDIS ?? 'redis://127.0.0.1:6379/9'

/** The servers of one run, over the files in `folder`. */
export function serversIn(folder) {
  const node = (name, args = [], env = {}) => ({
    command: process.execPath,
    args: [programOf(name), ...args],
    env: { PATH: process.env.PATH, HOME: folder, ...env },
  })
  return {
    files: node('@modelcontextprotocol/server-filesystem', [folder]),
    people: node('@modelcontextprotocol/server-memory', [], { MEMORY_FILE_PATH: join(folder, 'people.jsonl') }),
    thinking: node('@modelcontextprotocol/server-sequential-thinking'),
    everything: node('@modelcontextprotocol/server-everything', ['stdio']),
    calc: node('@coo-quack/calc-mcp'),
    planner: node('@kazuph/mcp-taskmanager', [], { TASK_MANAGER_FILE_PATH: join(folder, 'plans.json') }),
    git: node('@cyanheads/git-mcp-server', [], { MCP_LOG_LEVEL: 'error', GIT_BASE_DIR: folder }),
    excel: node('@negokaz/excel-mcp-server'),
    redis: node('@modelcontextprotocol/server-redis', [REDIS]),
    postgres: node('@modelcontextprotocol/server-postgres', [POSTGRES]),
    mariadb: node('@bytebase/dbhub', ['--transport', 'stdio', '--dsn', MYSQL]),
    eslint: node('@eslint/mcp'),
  }
}

/** Servers that list the definitions of well-known ones and run nothing, as in a real configuration nobody uses all. */
const LISTED = [
  'github',
  'notion',
  'slack',
  'todoist',
  'google-calendar',
  'playwright',
  'kubernetes',
  'stripe',
  'grafana',
]

/** As many of them as it takes to have `most` tools beside `used`. */
export function listedServers(used, most) {
  const servers = {}
  let left = most - used
  for (const name of LISTED) {
    if (left <= 0) break
    const file = join(DEFINITIONS, `${name}.json`)
    const { tools } = JSON.parse(readFileSync(file, 'utf8'))
    const shown = Math.min(left, tools.length)
    left -= shown
    servers[name] = { command: process.execPath, args: [here('listed-server.mjs'), file, String(shown)] }
  }
  return servers
}

/** Puts what the jobs find into a folder: files, a spreadsheet, a repository. */
export function fill(folder) {
  mkdirSync(join(folder, 'notes'), { recursive: true })
  mkdirSync(join(folder, 'code'))
  mkdirSync(join(folder, 'site'))
  const write = (name, text) => writeFileSync(join(folder, name), text)
  write('notes/todo.txt', 'buy milk\ncall Ann\npay rent\n')
  write('notes/recipe.md', '# Pancakes\n\n2 eggs\n200 g flour\n300 ml milk\n')
  write('notes/numbers.csv', 'name,value\na,12\nb,30\nc,58\n')
  write(
    'notes/log.txt',
    Array.from({ length: 2_000 }, (_, n) => `${n} ${n % 97 === 0 ? 'ERROR disk' : 'ok'}`).join('\n'),
  )
  write('code/package.json', '{"name":"code","version":"1.4.0","type":"module"}\n')
  write('code/eslint.config.js', 'export default [{ rules: { "no-unused-vars": "error", "no-var": "error" } }]\n')
  write('code/sum.js', 'var unused = 1\nexport const sum = (a, b) => a + b\n')
  write('site/index.html', '<title>Shop</title>\n')
  cpSync(here('sales.xlsx'), join(folder, 'sales.xlsx'))
  const git = (...args) => execFileSync('git', ['-C', join(folder, 'site'), ...args], { stdio: 'pipe' })
  git('init', '-q', '-b', 'main')
  git('config', 'user.name', 'Bench')
  git('config', 'user.email', 'bench@example.com')
  git('add', '.')
  git('commit', '-q', '-m', 'First page')
  write('site/about.html', '<title>About</title>\n')
}

export const isThere = (folder, name) => readdirSync(folder).includes(name)
