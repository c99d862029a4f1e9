import { defineModule, type ToolModule } from 'pegboard'
import { createClient } from './client.ts'
import { Config, type Settings } from './config.ts'
import { createDownloadTools, meansOf } from './download.ts'
import { createDownloads } from './downloads.ts'
import { CLAIM_S } from './kept.ts'
import { createFetchPage, createJsonApi, createSubmitForm, createVerbs } from './request.ts'
import { createUploadFile } from './upload.ts'

/** Connections and downloads live in here, so that a reloaded or second copy has its own. */
function http(): ToolModule<unknown> {
  const client = createClient()
  const downloads = createDownloads()
  return defineModule({
    name: 'http',
    description: 'Asks for addresses, calls APIs, reads pages, and sends and saves files; only where it may reach.',
    config: Config,
    synonyms: [['url', 'address', 'link', 'adresse', 'lien', 'enlace']],
    async start({ config, services, log, signal }) {
      if ((config as Settings).access !== 'write' || services.kv === null) return
      const means = meansOf(client, { config: config as Settings, services, log })
      // What a process left behind that ended a moment ago still counts as its own.
      const takeUp = (): void =>
        void downloads.takeUp(means).catch((error) => log.warn('downloads are not taken up', { error: String(error) }))
      takeUp()
      const again = setTimeout(takeUp, (CLAIM_S + 1) * 1000).unref()
      signal.addEventListener('abort', () => clearTimeout(again), { once: true })
    },
    async stop() {
      await downloads.close()
      await client.close()
    },
    tools: {
      ...createVerbs(client),
      json_api: createJsonApi(client),
      submit_form: createSubmitForm(client),
      upload_file: createUploadFile(client),
      fetch_page: createFetchPage(client),
      ...createDownloadTools(client, downloads),
    },
  }) as ToolModule<unknown>
}

export default http()
