import { type Log, type Services, type ToolDef, ToolError, z } from 'pegboard'
import type { Client } from './client.ts'
import { pathsFor, type Settings, writes } from './config.ts'
import type { Downloads, Means, Order } from './downloads.ts'
import { createKept } from './kept.ts'
import { auth, headers, requestOf, url } from './parameters.ts'

const Begin = z.object({
  url,
  destination: z.string().min(1).max(4096).describe('The file to make, in the folders that may be used.'),
  overwrite: z.boolean().default(false).describe('Replace the file if there is one.'),
  headers,
  auth,
  timeout: z.int().min(1).max(86_400).default(3600).describe('Seconds it may take.'),
})
const download_id = z.string().min(1).max(100).describe('What download answered with.')
const One = z.object({ download_id })
const Wait = z.object({
  download_id,
  timeout: z.int().min(1).max(600).default(60).describe('Seconds to wait at most.'),
})

/** How long a download may take to be over before its beginning is all that is told. */
const SOON_MS = 300
const TICK_MS = 250
const NEVER = new Promise<void>(() => undefined)

const common = { tags: ['http', 'files', 'download'], available: writes }

/** Resolves when the work is over, or after so long, or when the signal fires. */
async function settled(done: Promise<void>, ms: number, signal: AbortSignal): Promise<void> {
  let timer: NodeJS.Timeout | undefined
  let leave: () => void = () => undefined
  await Promise.race([
    done,
    new Promise<void>((resolve) => {
      timer = setTimeout(resolve, ms)
      leave = resolve
      signal.addEventListener('abort', leave, { once: true })
    }),
  ])
  clearTimeout(timer)
  signal.removeEventListener('abort', leave)
}

/** What downloads are done with under one configuration. */
export const meansOf = (
  client: Client,
  { config, services, log }: { readonly config: Settings; readonly services: Services; readonly log: Log },
): Means => ({
  fetch: client.fetchFor(config),
  paths: pathsFor(config),
  log,
  maxBytes: config.max_download,
  most: config.max_downloads,
  headersOf: (order) => requestFor(order, config).init.headers,
  kept: services.kv === null ? undefined : createKept(services.kv),
})

const requestFor = (
  { url: address, headers: given, auth: login }: Pick<Order, 'url' | 'headers' | 'auth'>,
  config: Settings,
) =>
  requestOf(
    { url: address, headers: given, auth: login, query_params: {}, follow_redirects: true, timeout: undefined },
    config,
  )

export function createDownloadTools(client: Client, downloads: Downloads) {
  const download: ToolDef<Settings, typeof Begin> = {
    ...common,
    title: 'Download a file',
    description:
      'Saves what is at an address as a file, in the background: answers at once with an id for download_status, download_wait and download_cancel. The id is good for an hour after the end. The file is there whole or not at all. To read a page use fetch_page.',
    aliases: ['save url', 'fetch file', 'wget', 'télécharger'],
    input: Begin,
    effect: 'destructive',
    openWorld: true,
    sideEffects: ['sends a request to the address', 'creates or replaces a file'],
    examples: [{ input: { url: 'https://example.com/data.zip', destination: 'downloads/data.zip' } }],
    async run(asked, ctx) {
      const { url: address, destination, overwrite, headers: given, auth: login, timeout } = asked
      const endsAt = Date.now() + timeout * 1000
      const order = { url: address, destination, overwrite, headers: given, endsAt, ...(login ? { auth: login } : {}) }
      // A bad header or login is told before anything is begun.
      requestFor(order, ctx.config)
      const job = await downloads.begin(ctx.caller, order, meansOf(client, ctx))
      await settled(job.done, SOON_MS, ctx.signal)
      if (job.failure) throw job.failure
      return job.state
    },
  }
  const download_status: ToolDef<Settings, typeof One> = {
    ...common,
    title: 'Download status',
    description: 'Says how far a download is: running, completed, failed or cancelled, and its bytes so far.',
    aliases: ['download progress', 'état du téléchargement'],
    input: One,
    effect: 'read',
    sideEffects: ['none'],
    examples: [{ input: { download_id: '4f0c' } }],
    run: async ({ download_id: id }, ctx) => (await downloads.get(ctx.caller, id, meansOf(client, ctx))).state,
  }
  const download_wait: ToolDef<Settings, typeof Wait> = {
    ...common,
    title: 'Wait for a download',
    description:
      'Waits until a download is over, or as long as said, and gives its status; tells its progress meanwhile.',
    aliases: ['wait download', 'attendre le téléchargement'],
    input: Wait,
    effect: 'read',
    sideEffects: ['none'],
    examples: [{ input: { download_id: '4f0c', timeout: 120 } }],
    async run({ download_id: id, timeout }, ctx) {
      const { caller, signal, progress } = ctx
      const means = meansOf(client, ctx)
      let shown = -1
      for (const end = performance.now() + timeout * 1000; ; ) {
        // Asked each time: another process may do it, and may end.
        const job = await downloads.get(caller, id, means)
        const { bytes, total, status } = job.state
        if (bytes !== shown) progress(bytes, total)
        shown = bytes
        const left = end - performance.now()
        if (status !== 'running' || left <= 0) return job.state
        signal.throwIfAborted()
        await settled(job.isElsewhere ? NEVER : job.done, Math.min(TICK_MS, left), signal)
      }
    },
  }
  const download_cancel: ToolDef<Settings, typeof One> = {
    ...common,
    title: 'Cancel a download',
    description: 'Ends a download that is running; what was saved of it is removed. One that is over stays as it is.',
    aliases: ['stop download', 'annuler le téléchargement'],
    input: One,
    effect: 'write',
    idempotent: true,
    sideEffects: ['ends the download', 'removes what was saved of it'],
    examples: [{ input: { download_id: '4f0c' } }],
    async run({ download_id: id }, ctx) {
      const job = await downloads.get(ctx.caller, id, meansOf(client, ctx))
      if (job.isElsewhere && job.state.status === 'running')
        throw new ToolError('Another Pegboard does this download.', {
          hint: 'Cancel it there, or wait until that one has ended.',
        })
      job.abort.abort()
      await job.done
      return job.state
    },
  }
  const download_list: ToolDef<Settings> = {
    ...common,
    title: 'List downloads',
    description: 'Lists the downloads that run and those that were over in the last hour, with their status and bytes.',
    aliases: ['downloads', 'lister les téléchargements'],
    effect: 'read',
    sideEffects: ['none'],
    examples: [{ input: {} }],
    run: async (_input, ctx) => ({ downloads: await downloads.list(ctx.caller, meansOf(client, ctx)) }),
  }
  return { download, download_status, download_wait, download_cancel, download_list }
}
