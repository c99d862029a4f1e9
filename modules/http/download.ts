import { type Log, type Services, type ToolDef, ToolError, z } from 'pegboard'
import { waitFor } from '../_wait-for.ts'
import { pathsFor, type Settings, writes } from './config.ts'
import { createDownloadStore } from './download-store.ts'
import type { DownloadContext, DownloadOrder, Downloads } from './downloads.ts'
import type { Client } from './request-client.ts'
import { auth, createRequest, headers, url } from './request-parameters.ts'

const Begin = z.object({
  url,
  destination: z.string().min(1).max(4096).describe('File to create, in the allowed folders.'),
  overwrite: z.boolean().default(false).describe('Replace an existing file.'),
  headers,
  auth,
  timeout: z.int().min(1).max(86_400).default(3600).describe('Timeout in seconds.'),
})
const download_id = z.string().min(1).max(100).describe('Id from download.')
const ById = z.object({ download_id })
const Wait = z.object({
  download_id,
  timeout: z.int().min(1).max(600).default(60).describe('Maximum seconds to wait.'),
})

/** If a download takes longer, the answer reports that it has started. */
const FAST_DOWNLOAD_MS = 300
const POLL_MS = 250
const NEVER = new Promise<void>(() => undefined)

const common = { tags: ['http', 'files', 'download'], available: writes }

/** What downloads need under one configuration. */
export const createDownloadContext = (
  client: Client,
  { config, services, log }: { readonly config: Settings; readonly services: Services; readonly log: Log },
): DownloadContext => ({
  fetch: client.fetchFor(config),
  paths: pathsFor(config),
  log,
  maxBytes: config.max_download,
  maxPerOwner: config.max_downloads,
  headersOf: (order) => createDownloadRequest(order, config).init.headers,
  store: services.kv === null ? undefined : createDownloadStore(services.kv),
  by: services.tasks?.owner,
  mayGoOn: (by) => services.tasks?.mayGoOn(by) ?? true,
  mayResume: (by) => services.tasks?.mayResume(by, 'http.download') ?? true,
})

const createDownloadRequest = (
  { url: address, headers, auth: login }: Pick<DownloadOrder, 'url' | 'headers' | 'auth'>,
  config: Settings,
) =>
  createRequest(
    { url: address, headers, auth: login, query_params: {}, follow_redirects: true, timeout: undefined },
    config,
  )

export function createDownloadTools(client: Client, downloads: Downloads) {
  const download: ToolDef<Settings, typeof Begin> = {
    ...common,
    title: 'Download a file',
    description:
      'Download an address to a file in the background: returns at once with an id for download_status, download_wait and download_cancel. The id is valid for an hour after the end. The file appears only when complete. To read a page use fetch_page.',
    aliases: ['save url', 'fetch file', 'wget', 'télécharger'],
    input: Begin,
    effect: 'destructive',
    openWorld: true,
    sideEffects: ['sends a request to the address', 'creates or replaces a file'],
    examples: [{ input: { url: 'https://example.com/data.zip', destination: 'downloads/data.zip' } }],
    async run(input, ctx) {
      const { url: address, destination, overwrite, headers: given, auth: login, timeout } = input
      const endsAt = Date.now() + timeout * 1000
      const order = { url: address, destination, overwrite, headers: given, endsAt, ...(login ? { auth: login } : {}) }
      // An invalid header or login is reported before anything starts.
      createDownloadRequest(order, ctx.config)
      const job = await downloads.begin(ctx.caller, order, createDownloadContext(client, ctx))
      await waitFor(job.finished, FAST_DOWNLOAD_MS, ctx.signal)
      if (job.failure) throw job.failure
      return job.state
    },
  }
  const download_status: ToolDef<Settings, typeof ById> = {
    ...common,
    title: 'Download status',
    description: 'Show the status of a download: running, completed, failed or cancelled, and its bytes so far.',
    aliases: ['download progress', 'état du téléchargement'],
    input: ById,
    effect: 'read',
    sideEffects: ['none'],
    examples: [{ input: { download_id: '4f0c' } }],
    run: async ({ download_id: id }, ctx) =>
      (await downloads.get(ctx.caller, id, createDownloadContext(client, ctx))).state,
  }
  const download_wait: ToolDef<Settings, typeof Wait> = {
    ...common,
    title: 'Wait for a download',
    description: 'Wait until a download ends, or until the timeout, and return its status; reports progress.',
    aliases: ['wait download', 'attendre le téléchargement'],
    input: Wait,
    effect: 'read',
    sideEffects: ['none'],
    examples: [{ input: { download_id: '4f0c', timeout: 120 } }],
    async run({ download_id: id, timeout }, ctx) {
      const { caller, signal, progress } = ctx
      const context = createDownloadContext(client, ctx)
      let shownBytes = -1
      for (const deadline = performance.now() + timeout * 1000; ; ) {
        // Read each time, because another process may run it and may end.
        const job = await downloads.get(caller, id, context)
        const { bytes, total, status } = job.state
        if (bytes !== shownBytes) progress(bytes, total)
        shownBytes = bytes
        const remainingMs = deadline - performance.now()
        if (status !== 'running' || remainingMs <= 0) return job.state
        await waitFor(job.isElsewhere ? NEVER : job.finished, Math.min(POLL_MS, remainingMs), signal)
      }
    },
  }
  const download_cancel: ToolDef<Settings, typeof ById> = {
    ...common,
    title: 'Cancel a download',
    description: 'Cancel a running download and remove its partial file. A finished one is left unchanged.',
    aliases: ['stop download', 'annuler le téléchargement'],
    input: ById,
    effect: 'write',
    idempotent: true,
    sideEffects: ['stops the download', 'removes its partial file'],
    examples: [{ input: { download_id: '4f0c' } }],
    async run({ download_id: id }, ctx) {
      const job = await downloads.get(ctx.caller, id, createDownloadContext(client, ctx))
      if (job.isElsewhere && job.state.status === 'running')
        throw new ToolError('Another Pegboard runs this download.', {
          hint: 'Cancel it there, or wait until that Pegboard has stopped.',
        })
      job.abort.abort()
      await job.finished
      return job.state
    },
  }
  const download_list: ToolDef<Settings> = {
    ...common,
    title: 'List downloads',
    description: 'List running downloads and those that ended in the last hour, with their status and bytes.',
    aliases: ['downloads', 'lister les téléchargements'],
    effect: 'read',
    sideEffects: ['none'],
    examples: [{ input: {} }],
    run: async (_input, ctx) => ({ downloads: await downloads.list(ctx.caller, createDownloadContext(client, ctx)) }),
  }
  return { download, download_status, download_wait, download_cancel, download_list }
}
