import { defineModule, type GuardedFetch, type ToolModule } from 'pegboard'
import { createOriginFetch } from '../_origin-fetch.ts'
import { Config, MAX_IMAGE_BYTES, SETTING } from './config.ts'
import { createGenerateImage } from './image.ts'
import { add_media, list_media } from './library.ts'
import { createGenerateVoiceMessage } from './voice.ts'

/** Connections are created here, so that a reloaded or second instance has its own. */
function media(): ToolModule<unknown> {
  const fetchByUrl = new Map<string, GuardedFetch>()
  const fetchFor = (baseUrl: string, timeoutS: number): GuardedFetch => {
    const key = `${timeoutS} ${baseUrl}`
    const fetch =
      fetchByUrl.get(key) ??
      createOriginFetch(baseUrl, { setting: SETTING, timeoutMs: timeoutS * 1000, maxBytes: 2 * MAX_IMAGE_BYTES })
    fetchByUrl.set(key, fetch)
    return fetch
  }
  return defineModule({
    name: 'media',
    description: 'Generate and edit images and speak voice messages with the configured backends.',
    config: Config,
    synonyms: [
      ['image', 'picture', 'photo', 'Bild', 'imagen', 'dessin'],
      ['voice', 'speech', 'audio', 'voix', 'Stimme', 'voz'],
    ],
    async stop() {
      await Promise.all([...fetchByUrl.values()].map((fetch) => fetch.close()))
    },
    tools: {
      generate_image: createGenerateImage(fetchFor),
      generate_voice_message: createGenerateVoiceMessage(fetchFor),
      list_media,
      add_media,
    },
  }) as ToolModule<unknown>
}

export default media()
