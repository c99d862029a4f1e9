/** Every route by which a client can run a tool. */
export const callRoutes = (
  name: string,
): ReadonlyArray<{ readonly name: string; readonly arguments: Record<string, unknown> }> => [
  { name, arguments: {} },
  { name: 'execute_tool', arguments: { name, params: {} } },
  { name: 'run_parallel', arguments: { actions: [{ name }, { name: 'database.query_rows' }] } },
  { name: 'background_run', arguments: { name } },
  { name: 'watch_start', arguments: { name, interval: 5 } },
  { name: 'schedule_once', arguments: { name, when: 'in 1h' } },
]

/** An answer without values that differ each time. */
export const withoutChangingValues = (answer: unknown): string =>
  (JSON.stringify(answer) ?? '')
    .replaceAll(/[0-9a-f]{8}-[0-9a-f-]{27}/g, '<id>')
    .replaceAll(/\b[0-9a-f]{12}\b/g, '<id>')
    .replaceAll(/\b[0-9a-z]{25}\b/g, '<id>')
    .replaceAll(/("taskId":)"[\w.-]+"/g, '$1<id>')
    .replaceAll(/(_ms|_at|[a-z]At|elapsed\w*)(\\*":)(?:\d[\d.]*|\\*"[^"]*")/g, '$1$2<time>')

/** Every tool with an address argument, and its arguments; after a blank, another way to use it. */
export const toolsWithUrl = (url: string): Readonly<Record<string, object>> => ({
  'http.get': { url },
  'http.head': { url },
  'http.options': { url },
  'http.post': { url, body: 'x' },
  'http.request': { method: 'PUT', url, body: 'x' },
  'http.json_api': { url },
  'http.submit_form': { url, fields: { a: 'b' } },
  'http.fetch_page': { url },
  'http.upload_file': { url, path: 'up.txt' },
  'http.download': { url, destination: `${url.length}.bin` },
  'web.fetch_url': { url },
  'web.extract': { url },
  'web.url_fetch': { url },
  'web.url_fetch with a file': { url, download_path: `saved-${url.length}.bin` },
})
