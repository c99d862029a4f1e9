import { ToolError } from 'pegboard'
import type { Contact } from '../_contact-files.ts'
import { invalid } from '../_errors.ts'
import { telegramChat, telegramNumber } from '../_reference-ids.ts'

/** Where a message goes: to an adapter of a chat platform, or to a peer. */
export type Route =
  | { readonly by: 'adapter'; readonly adapter: string; readonly channel: string; readonly peer_id: string }
  | { readonly by: 'peer'; readonly node: string; readonly address: string; readonly peer_id: string }

/**
 * Finds the recipient by contact_id, otherwise by private chat or peer, and for `tg:@user` the only contact of that
 * name with a private chat. Active contacts come first.
 * @throws ToolError if several match; undefined if none does
 */
export function findContact(requestedId: string, contacts: readonly Contact[]): Contact | undefined {
  const user = /^tg:@(.+)$/.exec(requestedId)?.[1]?.toLowerCase()
  const exact = contacts.find(({ contact_id }) => contact_id === requestedId)
  if (user === undefined)
    return (
      exact ??
      onlyMatch(
        requestedId,
        contacts.filter(
          ({ tg_private_chat_id: chat, maep_node_id: node }) =>
            (chat !== '' && requestedId === `tg:${chat}`) || (node !== '' && requestedId === `maep:${node}`),
        ),
      )
    )
  if (exact && exact.tg_private_chat_id !== '') return exact
  const namesakes = contacts.filter(({ tg_username, contact_id }) =>
    [tg_username.toLowerCase(), contact_id.toLowerCase().replace(/^tg:@/, '')].includes(user),
  )
  const withChat = namesakes.filter(({ tg_private_chat_id }) => tg_private_chat_id !== '')
  return onlyMatch(requestedId, withChat) ?? exact ?? namesakes[0]
}

function onlyMatch(requestedId: string, matches: readonly Contact[]): Contact | undefined {
  if (matches.length < 2) return matches[0]
  const ids = matches.map(({ contact_id }) => contact_id).join(' or ')
  throw invalid(`${requestedId} matches several contacts: ${ids}`, 'Use one of these as contact_id.')
}

/** @param adapters names of the running adapters @throws ToolError */
export function routeTo(
  contact: Contact,
  chat_id: string | undefined,
  adapters: ReadonlySet<string>,
  peers: boolean,
): Route {
  const { contact_id, tg_private_chat_id, tg_group_chat_ids, maep_node_id, maep_dial_address } = contact
  const telegram = (channel: string): Route => {
    if (!adapters.has('telegram'))
      throw new ToolError(`${contact_id} needs Telegram, which is not configured.`, {
        code: 'E_BACKEND_UNAVAILABLE',
        retryable: false,
        hint: 'The operator configures modules.telegram, or another module with a telegram adapter.',
      })
    return { by: 'adapter', adapter: 'telegram', channel, peer_id: `tg:${channel}` }
  }

  if (chat_id !== undefined) {
    const chat = telegramChat(chat_id) ?? telegramNumber(chat_id)
    if (chat === undefined)
      throw invalid(`invalid chat_id: ${chat_id.slice(0, 80)}`, 'Leave it out, or use tg:<number>.')
    if (chat === tg_private_chat_id || tg_group_chat_ids.includes(chat)) return telegram(chat)
    if (tg_private_chat_id !== '') return telegram(tg_private_chat_id)
    throw invalid(`chat_id ${chat_id} does not belong to ${contact_id}`, 'Leave it out: Pegboard finds the chat.')
  }

  const chat = tg_private_chat_id || lowestId(tg_group_chat_ids) || telegramChat(contact_id)
  if (chat) return telegram(chat)
  const [platform = '', channel = ''] = /^(slack|discord):(.+)$/.exec(contact_id)?.slice(1) ?? []
  if (adapters.has(platform)) return { by: 'adapter', adapter: platform, channel, peer_id: contact_id }
  const node = maep_node_id || (/^maep:(.+)$/.exec(contact_id)?.[1] ?? '')
  if (node !== '' || maep_dial_address !== '') {
    if (peers)
      return { by: 'peer', node, address: maep_dial_address, peer_id: node === '' ? contact_id : `maep:${node}` }
    throw new ToolError(`${contact_id} is an agent, and messages to agents are disabled.`, {
      code: 'E_TOOL_HIDDEN',
      hint: 'The operator sets modules.contacts.config.peers to true.',
    })
  }
  throw invalid(
    `unable to resolve delivery channel for contact_id=${contact_id}`,
    'Its entry in contacts/ACTIVE.md needs tg_private_chat_id, tg_group_chat_ids, or maep_node_id.',
  )
}

const lowestId = (ids: readonly string[]): string | undefined =>
  ids.toSorted((a, b) => (BigInt(a) < BigInt(b) ? -1 : 1))[0]
