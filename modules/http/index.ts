import { defineModule, type ToolModule } from 'pegboard'
import { createTurns, inTurns } from '../_turns.ts'
import { Config, type Settings } from './config.ts'
import { createDownloadContext, createDownloadTools } from './download.ts'
import { CLAIM_S } from './download-store.ts'
import { createDownloads } from './downloads.ts'
import { createFetchPage, createJsonApi, createMethodTools, createSubmitForm } from './request.ts'
import { createClient } from './request-client.ts'
import { createUploadFile } from './upload.ts'

/** Requests at once, of all principals and of one. Each may hold a body and an answer of several MiB. */
const MAX_REQUESTS = { all: 256, each: 128 }

/** State is created here, so that a reloaded or second instance has its own. */
function http(): ToolModule<unknown> {
  const client = createClient()
  const downloads = createDownloads()
  const turns = createTurns(MAX_REQUESTS.all, MAX_REQUESTS.each)
  return defineModule({
    name: 'http',
    description: 'Send HTTP requests, call APIs, read pages, upload and download files, on allowed hosts.',
    config: Config,
    synonyms: [['url', 'address', 'link', 'adresse', 'lien', 'enlace']],
    async start({ config, services, log, signal }) {
      if ((config as Settings).access !== 'write' || services.kv === null) return
      const context = createDownloadContext(client, { config: config as Settings, services, log })
      const resumeDownloads = (): void =>
        void downloads
          .resumeAll(context)
          .catch((error) => log.warn('downloads cannot be resumed', { error: String(error) }))
      // Clients can call the tools only after the start, and claims of a process that has just ended are still valid.
      const timers = [1, CLAIM_S + 1].map((seconds) => setTimeout(resumeDownloads, seconds * 1000).unref())
      signal.addEventListener('abort', () => timers.forEach(clearTimeout), { once: true })
    },
    async stop() {
      await downloads.close()
      await client.close()
    },
    tools: {
      ...inTurns(turns, {
        ...createMethodTools(client),
        json_api: createJsonApi(client),
        submit_form: createSubmitForm(client),
        upload_file: createUploadFile(client),
        fetch_page: createFetchPage(client),
      }),
      ...createDownloadTools(client, downloads),
    },
  }) as ToolModule<unknown>
}

export default http()
