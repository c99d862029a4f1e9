import type { SearchSource } from '../../src/search/search-document.ts'

/** A tool of a drop-in module, as search sees it. */
export function toolOf(id: string, description: string, more: Partial<SearchSource> = {}): SearchSource {
  const [module = ''] = id.split('.')
  return {
    id,
    name: id.replace('.', '__'),
    module,
    title: '',
    description,
    aliases: [],
    tags: [],
    sideEffects: [],
    inputJson: { type: 'object', properties: {} },
    origin: 'module',
    ...more,
  }
}

const takes = (properties: Record<string, unknown>) => ({ inputJson: { type: 'object', properties } })

/** A small catalogue of typical tools. */
export const CATALOGUE: readonly SearchSource[] = [
  toolOf('filesystem.read', 'Read a text file and return its content.', {
    aliases: ['lire', 'lire fichier', 'read file'],
    ...takes({ path: { type: 'string', description: 'File to read' }, encoding: { enum: ['utf8', 'base64'] } }),
  }),
  toolOf('filesystem.write', 'Write text to a file, creating it when missing.', {
    aliases: ['écrire', 'écrire fichier'],
    sideEffects: ['writes files'],
    ...takes({ path: { type: 'string' }, content: { type: 'string' } }),
  }),
  toolOf('filesystem.ls', 'List the entries of a directory.', { aliases: ['lister dossier'] }),
  toolOf('filesystem.grep', 'Find lines matching a pattern in files.'),
  toolOf('filesystem.rm', 'Delete a file or a folder for good.', { sideEffects: ['deletes files'] }),
  toolOf('http.get', 'Fetch a URL with GET and return status, headers and body.', takes({ url: { type: 'string' } })),
  toolOf('http.download', 'Download a URL to a local path.'),
  toolOf('web.search', 'Search the web and return titles, links and snippets.'),
  toolOf('database.query', 'Run a SQL query against a configured database.', {
    tags: ['sql', 'données'],
    ...takes({ sql: { type: 'string' }, engine: { enum: ['sqlite', 'postgres', 'mysql'] } }),
  }),
  toolOf('database.tables', 'Show the tables of a database and their columns.'),
  toolOf('memory.remember', 'Store a fact for later conversations.'),
  toolOf('memory.recall', 'Look up facts stored earlier.'),
  toolOf('todo.add', 'Add a task to the list.', { aliases: ['ajouter une tâche'] }),
  toolOf('todo.complete', 'Mark a task as done.'),
  toolOf('telegram.send', 'Send a message to a Telegram chat.', takes({ chat_id: {}, text: {} })),
  toolOf('weather.forecast', 'Weather forecast for a city over the next days.', takes({ city: {}, days: {} })),
  toolOf('mcp_github.list_issues', 'List issues in a GitHub repository.', {
    name: 'mcp_github__list_issues',
    origin: 'upstream',
    ...takes({ owner: {}, repo: {}, state: { enum: ['open', 'closed'] }, labels: { description: 'Label names' } }),
  }),
  toolOf('mcp_github.createPullRequest', 'Open a new pull request.', { origin: 'upstream' }),
  toolOf('mcp_calendar.create_event', 'Create a calendar event with attendees.', { origin: 'upstream' }),
  toolOf('mcp_reader.open_document', '读取本地文档的内容', { origin: 'upstream' }),
  toolOf('mcp_reader.hon_yomu', '日本語の本を検索する', { origin: 'upstream' }),
]
