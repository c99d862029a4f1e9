import type { Owner, Prompt } from '../catalog/owner.ts'

/** Finds a prompt by the name that clients know. @param renamed prompts whose name differs from that of their server */
export function promptNamed(
  owners: readonly Owner[],
  renamed: ReadonlyMap<Prompt, string>,
  name: string,
): { readonly owner: Owner; readonly prompt: Prompt } | undefined {
  for (const owner of owners)
    for (const prompt of owner.prompts) if ((renamed.get(prompt) ?? prompt.name) === name) return { owner, prompt }
  return undefined
}
