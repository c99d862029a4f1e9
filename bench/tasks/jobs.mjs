// Jobs that people give to an assistant, each with the steps of one who knows how, and a check of what is there afterwards.
import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

const text = (dir, name) => readFileSync(join(dir, name), 'utf8')
const people = (dir) =>
  existsSync(join(dir, 'people.jsonl'))
    ? text(dir, 'people.jsonl')
        .split('\n')
        .filter(Boolean)
        .map((line) => JSON.parse(line))
    : []
const plans = (dir) => JSON.parse(text(dir, 'plans.json')).requests
const git = (dir, ...args) => execFileSync('git', ['-C', join(dir, 'site'), ...args], { encoding: 'utf8' }).trim()

/**
 * A step: what the model looks for in everyday words, the tool, and its arguments as a JavaScript expression over `dir`
 * (the folder) and `r` (the results so far). A result is the structured content, or the text, parsed if it is JSON.
 * `long`: what to read of a result that was too long.
 */
const step = (need, tool, args = '{}', long) => ({ need, tool: `mcp_${tool}`, args, long })
const read = (name) => step('open a text file', 'files.read_text_file', `{ path: dir + '/${name}' }`)
const save = (name, content) =>
  step('save text to a new file', 'files.write_file', `{ path: dir + '/${name}', content: ${content} }`)
const listing = step('what is in a folder', 'files.list_directory', "{ path: dir + '/notes' }")

/** `check` gets the folder and the result of the last step. Jobs run in this order and change no file of another one. */
export const jobs = [
  {
    id: 'note',
    request: 'Save a note hello.txt that says hello.',
    steps: [save('hello.txt', "'hello'")],
    check: (dir) => text(dir, 'hello.txt') === 'hello',
  },
  {
    id: 'copy-list',
    request: 'Copy my to-do list into shopping.txt.',
    steps: [read('notes/todo.txt'), save('shopping.txt', 'r[0].content')],
    check: (dir) => text(dir, 'shopping.txt').trim() === text(dir, 'notes/todo.txt').trim(),
  },
  {
    id: 'done',
    request: 'I have bought milk, cross it off in notes/todo.txt by putting an x before it.',
    steps: [
      step(
        'change a line in a file',
        'files.edit_file',
        "{ path: dir + '/notes/todo.txt', edits: [{ oldText: 'buy milk', newText: 'x buy milk' }] }",
      ),
    ],
    check: (dir) => text(dir, 'notes/todo.txt').startsWith('x buy milk'),
  },
  {
    id: 'folder',
    request: 'Make a folder archive and move the recipe there.',
    steps: [
      step('make a new folder', 'files.create_directory', "{ path: dir + '/archive' }"),
      step(
        'move a file elsewhere',
        'files.move_file',
        "{ source: dir + '/notes/recipe.md', destination: dir + '/archive/recipe.md' }",
      ),
    ],
    check: (dir) => existsSync(join(dir, 'archive/recipe.md')) && !existsSync(join(dir, 'notes/recipe.md')),
  },
  {
    id: 'what-is-there',
    request: 'Which files are in my notes folder?',
    steps: [listing],
    check: (_, answer) => answer.content.includes('todo.txt'),
  },
  {
    id: 'find-file',
    request: 'Where is the page about.html?',
    steps: [step('find a file by its name', 'files.search_files', "{ path: dir, pattern: '**/about.html' }")],
    check: (_, answer) => answer.content.includes('site/about.html'),
  },
  {
    id: 'log-errors',
    request: 'How many lines of notes/log.txt say ERROR? Save the number in errors.txt.',
    steps: [
      { ...read('notes/log.txt'), long: { grep: 'ERROR', count: true } },
      save(
        'errors.txt',
        "/^\\[(\\d+) lines/.exec(r[0])?.[1] ?? String((r[0].content ?? r[0]).split('ERROR').length - 1)",
      ),
    ],
    check: (dir) => text(dir, 'errors.txt') === '21',
  },
  {
    id: 'last-lines',
    request: 'Show the last 3 lines of the log.',
    steps: [step('end of a long file', 'files.read_text_file', "{ path: dir + '/notes/log.txt', tail: 3 }")],
    check: (_, answer) => answer.content.includes('1999'),
  },
  {
    id: 'remember',
    request: 'Remember that Anna likes tea.',
    steps: [
      step(
        'remember something about a person',
        'people.create_entities',
        "{ entities: [{ name: 'Anna', entityType: 'person', observations: ['likes tea'] }] }",
      ),
    ],
    check: (dir) => people(dir).some(({ name, observations }) => name === 'Anna' && observations.includes('likes tea')),
  },
  {
    id: 'recall',
    request: 'What did I tell you about Anna?',
    steps: [step('what do I know about someone', 'people.search_nodes', "{ query: 'Anna' }")],
    check: (_, answer) => JSON.stringify(answer).includes('likes tea'),
  },
  {
    id: 'relation',
    request: 'Ben is a person who works with Anna, remember that.',
    steps: [
      step(
        'remember something about a person',
        'people.create_entities',
        "{ entities: [{ name: 'Ben', entityType: 'person', observations: [] }] }",
      ),
      step(
        'remember how two people belong together',
        'people.create_relations',
        "{ relations: [{ from: 'Ben', to: 'Anna', relationType: 'works with' }] }",
      ),
    ],
    check: (dir) => people(dir).some(({ from, to }) => from === 'Ben' && to === 'Anna'),
  },
  {
    id: 'one-more-fact',
    request: 'Anna also plays chess.',
    steps: [
      step(
        'add one more fact about a known person',
        'people.add_observations',
        "{ observations: [{ entityName: 'Anna', contents: ['plays chess'] }] }",
      ),
    ],
    check: (dir) => people(dir).some(({ observations = [] }) => observations.includes('plays chess')),
  },
  {
    id: 'forget',
    request: 'Forget that Anna plays chess.',
    steps: [
      step(
        'forget a fact',
        'people.delete_observations',
        "{ deletions: [{ entityName: 'Anna', observations: ['plays chess'] }] }",
      ),
    ],
    check: (dir) => !people(dir).some(({ observations = [] }) => observations.includes('plays chess')),
  },
  {
    id: 'arithmetic',
    request: 'What is 12.5 % of 640?',
    steps: [step('calculate 12.5 percent of a number', 'calc.math', "{ expression: '640 * 0.125' }")],
    check: (_, answer) => Number(answer) === 80,
  },
  {
    id: 'miles',
    request: 'How many miles are 10 km?',
    steps: [step('kilometres to miles', 'calc.convert', "{ value: 10, from: 'km', to: 'mile' }")],
    check: (_, answer) => Math.abs(answer.result - 6.2137) < 0.001,
  },
  {
    id: 'days',
    request: 'How many days lie between 1 January and 1 March 2026?',
    steps: [step('days between two dates', 'calc.date', "{ action: 'diff', date: '2026-01-01', date2: '2026-03-01' }")],
    check: (_, answer) => answer.days === 59,
  },
  {
    id: 'fingerprint',
    request: 'Save the SHA-256 of the word secret in hash.txt.',
    steps: [
      step('SHA-256 of a text', 'calc.hash', "{ input: 'secret', algorithm: 'sha256' }"),
      save('hash.txt', 'r[0].hash'),
    ],
    check: (dir) => text(dir, 'hash.txt').startsWith('2bb80d537b1da3e3'),
  },
  {
    id: 'average',
    request: 'What is the average of the values in notes/numbers.csv? Save it in average.txt.',
    steps: [
      read('notes/numbers.csv'),
      step(
        'average of some numbers',
        'calc.math',
        "{ action: 'statistics', values: r[0].content.trim().split('\\n').slice(1).map((line) => Number(line.split(',')[1])) }",
      ),
      save('average.txt', 'String(r[1].mean)'),
    ],
    check: (dir) => Number(text(dir, 'average.txt')) > 33.3,
  },
  {
    id: 'encode',
    request: 'Encode my to-do list as Base64 and save it in todo.b64.',
    steps: [
      read('notes/todo.txt'),
      step('turn text into base64', 'calc.base64', "{ input: r[0].content, action: 'encode' }"),
      save('todo.b64', 'String(r[1])'),
    ],
    check: (dir) => Buffer.from(text(dir, 'todo.b64'), 'base64').toString().includes('call Ann'),
  },
  {
    id: 'newer-version',
    request: 'Is version 1.10.0 newer than the one in code/package.json?',
    steps: [
      read('code/package.json'),
      step(
        'which of two version numbers is newer',
        'calc.semver',
        "{ action: 'compare', version: JSON.parse(r[0].content).version, version2: '1.10.0' }",
      ),
    ],
    check: (_, answer) => answer.result === -1,
  },
  {
    id: 'colour',
    request: 'What is #ff0000 as HSL?',
    steps: [step('hex colour to HSL', 'calc.color', "{ color: '#ff0000' }")],
    check: (_, answer) => answer.hsl === 'hsl(0, 100%, 50%)',
  },
  {
    id: 'mondays',
    request: 'When does a job with the schedule "0 9 * * 1" run next?',
    steps: [step('when will a cron line run', 'calc.cron_parse', "{ expression: '0 9 * * 1', count: 1 }")],
    check: (_, answer) => answer.nextOccurrences.length === 1,
  },
  {
    id: 'plan',
    request: 'Plan a party with two tasks: buy cake, invite friends.',
    steps: [
      step(
        'split a plan into tasks',
        'planner.request_planning',
        "{ originalRequest: 'Party', tasks: [{ title: 'Buy cake', description: 'Chocolate' }, { title: 'Invite friends', description: 'All' }] }",
      ),
    ],
    check: (dir) => plans(dir).at(-1).tasks.length === 2,
  },
  {
    id: 'task-done',
    request: 'The cake is bought.',
    steps: [
      step('which plans are there', 'planner.list_requests'),
      step('what is to do next', 'planner.get_next_task', '{ requestId: r[0].requests[0].requestId }'),
      step(
        'a task is finished',
        'planner.mark_task_done',
        '{ requestId: r[0].requests[0].requestId, taskId: r[1].task.id }',
      ),
    ],
    check: (dir) => plans(dir)[0].tasks.some(({ done }) => done),
  },
  {
    id: 'more-tasks',
    request: 'Add "rent chairs" to the party plan.',
    steps: [
      step('which plans are there', 'planner.list_requests'),
      step(
        'add something to a plan',
        'planner.add_tasks_to_request',
        "{ requestId: r[0].requests[0].requestId, tasks: [{ title: 'Rent chairs', description: 'Ten' }] }",
      ),
    ],
    check: (dir) => plans(dir)[0].tasks.some(({ title }) => title === 'Rent chairs'),
  },
  {
    id: 'commit',
    request: 'Commit the new page in the folder site.',
    steps: [
      step('what has changed in my repository', 'git.git_status', "{ path: dir + '/site' }"),
      step('put files into the next commit', 'git.git_add', "{ path: dir + '/site', paths: r[0].untrackedFiles }"),
      step('commit my changes', 'git.git_commit', "{ path: dir + '/site', message: 'Add the page about' }"),
    ],
    check: (dir) => git(dir, 'log', '-1', '--format=%s') === 'Add the page about',
  },
  {
    id: 'branch',
    request: 'Make a branch draft in the repository site.',
    steps: [step('new branch', 'git.git_branch', "{ path: dir + '/site', mode: 'create', branchName: 'draft' }")],
    check: (dir) => git(dir, 'branch', '--list', 'draft') !== '',
  },
  {
    id: 'tag',
    request: 'Mark the current state of site as v1.0.',
    steps: [step('mark a version in git', 'git.git_tag', "{ path: dir + '/site', mode: 'create', tagName: 'v1.0' }")],
    check: (dir) => git(dir, 'tag') === 'v1.0',
  },
  {
    id: 'history',
    request: 'Save the messages of the last commits of site in history.txt, one a line.',
    steps: [
      step('latest commits', 'git.git_log', "{ path: dir + '/site', maxCount: 5 }"),
      save('history.txt', "r[0].commits.map(({ subject, message }) => subject ?? message).join('\\n')"),
    ],
    check: (dir) => text(dir, 'history.txt').includes('First page'),
  },
  {
    id: 'sheet',
    request: 'Which sheets has sales.xlsx?',
    steps: [
      step(
        'which sheets has a spreadsheet',
        'excel.excel_describe_sheets',
        "{ fileAbsolutePath: dir + '/sales.xlsx' }",
      ),
    ],
    check: (_, answer) => answer.sheets[0].name === 'Sales',
  },
  {
    id: 'sheet-sum',
    request: 'Add a row July 200 to the sheet Sales in sales.xlsx.',
    steps: [
      step(
        'fill in cells of a spreadsheet',
        'excel.excel_write_to_sheet',
        "{ fileAbsolutePath: dir + '/sales.xlsx', sheetName: 'Sales', newSheet: false, range: 'A4:B4', values: [['July', 200]] }",
      ),
      step(
        'look at cells of a spreadsheet',
        'excel.excel_read_sheet',
        "{ fileAbsolutePath: dir + '/sales.xlsx', sheetName: 'Sales', range: 'A1:B4' }",
      ),
    ],
    check: (_, answer) => JSON.stringify(answer).includes('July'),
  },
  {
    id: 'cache',
    request: 'Store the word tea under the key drink in Redis, and read it again.',
    steps: [
      step('store a value under a key', 'redis.set', "{ key: 'bench:drink', value: 'tea' }"),
      step('read the value of a key', 'redis.get', "{ key: 'bench:drink' }"),
    ],
    check: (_, answer) => answer === 'tea',
  },
  {
    id: 'cache-clean',
    request: 'Delete all keys in Redis that begin with bench:.',
    steps: [
      step('which keys are stored', 'redis.list', "{ pattern: 'bench:*' }"),
      step('remove a stored key', 'redis.delete', "{ key: String(r[0]).split('\\n').slice(1) }"),
      step('which keys are stored', 'redis.list', "{ pattern: 'bench:*' }"),
    ],
    check: (_, answer) => /no keys/i.test(String(answer)),
  },
  {
    id: 'postgres',
    request: 'Which version of PostgreSQL do we run? Save it in postgres.txt.',
    steps: [
      step('ask the PostgreSQL database', 'postgres.query', "{ sql: 'SHOW server_version' }"),
      save('postgres.txt', 'r[0][0].server_version'),
    ],
    check: (dir) => /^\d+/.test(text(dir, 'postgres.txt')),
  },
  {
    id: 'mariadb',
    request: 'Ask MariaDB for the sum of 19 and 23.',
    steps: [step('ask the MariaDB database', 'mariadb.execute_sql', "{ sql: 'SELECT 19 + 23 AS total' }")],
    check: (_, answer) => JSON.stringify(answer).includes('42'),
  },
  {
    id: 'lint',
    request: 'Check code/sum.js for mistakes and say how many there are.',
    steps: [step('check JavaScript for mistakes', 'eslint.lint-files', "{ filePaths: [dir + '/code/sum.js'] }")],
    check: (_, answer) => JSON.stringify(answer).includes('no-var'),
  },
  {
    id: 'think',
    request: 'Think step by step about how to get from 1 to 10 by doubling and adding one; begin with one thought.',
    steps: [
      step(
        'think step by step',
        'thinking.sequentialthinking',
        "{ thought: 'Double 1, then add one', nextThoughtNeeded: false, thoughtNumber: 1, totalThoughts: 1 }",
      ),
    ],
    check: (_, answer) => answer.thoughtNumber === 1,
  },
  {
    id: 'weather',
    request: 'What is the weather in Chicago?',
    steps: [step('weather in a city', 'everything.get-structured-content', "{ location: 'Chicago' }")],
    check: (_, answer) => typeof answer.temperature === 'number',
  },
  {
    id: 'report',
    request:
      'Write report.md with the number of to-do lines, the average of numbers.csv and the current branch of site.',
    steps: [
      read('notes/todo.txt'),
      read('notes/numbers.csv'),
      step('what has changed in my repository', 'git.git_status', "{ path: dir + '/site' }"),
      step(
        'average of some numbers',
        'calc.math',
        "{ action: 'statistics', values: r[1].content.trim().split('\\n').slice(1).map((line) => Number(line.split(',')[1])) }",
      ),
      save(
        'report.md',
        "`${r[0].content.trim().split('\\n').length} to do, average ${r[3].mean}, branch ${r[2].currentBranch}\\n`",
      ),
    ],
    check: (dir) => /^3 to do, average 33\.3\d*, branch main$/.test(text(dir, 'report.md').trim()),
  },
  {
    id: 'all-sizes',
    request: 'Save the sizes of all files in notes in sizes.txt.',
    steps: [
      step('how large are the files of a folder', 'files.list_directory_with_sizes', "{ path: dir + '/notes' }"),
      save('sizes.txt', 'r[0].content'),
    ],
    check: (dir) => text(dir, 'sizes.txt').includes('log.txt'),
  },
  {
    id: 'table-to-people',
    request: 'Remember every name in numbers.csv as a thing with its value.',
    steps: [
      read('notes/numbers.csv'),
      step(
        'remember several things',
        'people.create_entities',
        "{ entities: r[0].content.trim().split('\\n').slice(1).map((line) => line.split(',')).map(([name, value]) => ({ name, entityType: 'thing', observations: ['value ' + value] })) }",
      ),
    ],
    check: (dir) => people(dir).filter(({ entityType }) => entityType === 'thing').length === 3,
  },
  {
    id: 'clean-up',
    request: 'Forget Ben completely.',
    steps: [step('forget a person', 'people.delete_entities', "{ entityNames: ['Ben'] }")],
    check: (dir) => !people(dir).some(({ name }) => name === 'Ben'),
  },
]
