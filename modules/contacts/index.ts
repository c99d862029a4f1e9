import { defineModule, type ToolModule } from 'pegboard'
import { Config } from './config.ts'
import { manage } from './manage.ts'
import { createSend } from './send.ts'

/** @param now clock; tests pass their own */
export function contacts(now: () => Date = () => new Date()): ToolModule<unknown> {
  return defineModule({
    name: 'contacts',
    description: 'Send messages to people and agents on a contact list.',
    config: Config,
    synonyms: [['contact', 'person', 'kontakt', 'contacto', '联系人']],
    tools: { contacts_send: createSend(now), ...manage },
  }) as ToolModule<unknown>
}

export default contacts()
