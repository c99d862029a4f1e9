import { messageOf } from '../core/errors.ts'
import type { Log } from '../core/log.ts'
import type { PromptSection } from '../core/module.ts'
import type { View } from './view.ts'

/** The prompt sections of the modules that a caller sees, by priority, then by module. */
export type PromptSections = (view: View) => readonly PromptSection[]

/** Omits a section that throws or has the wrong shape, and logs it once. */
export function createPromptSections(log: Log): PromptSections {
  const reported = new Set<string>()
  return (view) =>
    readPromptSections(view, (module, error) => {
      const key = `${module}\n${error}`
      if (!reported.has(key)) log.warn('skipped the prompt section of a module', { module, error })
      reported.add(key)
    })
}

/** @param onSkipped called for each section that throws or has the wrong shape */
export function readPromptSections(
  view: View,
  onSkipped: (module: string, error: string) => void,
): readonly PromptSection[] {
  const skipSection = (module: string, error: string): [] => {
    onSkipped(module, error)
    return []
  }
  return view.owners
    .flatMap(({ id, promptSection }) => {
      if (!promptSection || view.count(id) === 0) return []
      try {
        const section: unknown = promptSection(view.caller, (tool) => view.byId.get(tool)?.tool.name, view.profile)
        if (section === undefined || section === null) return []
        const { priority, text } = section as Partial<PromptSection>
        if (typeof priority !== 'number' || !Number.isFinite(priority) || typeof text !== 'string')
          return skipSection(id, 'promptSection returns { priority: a number, text: a string }, or nothing')
        return text.trim() === '' ? [] : [{ priority, text: text.trim() }]
      } catch (error) {
        return skipSection(id, messageOf(error))
      }
    })
    .sort((a, b) => a.priority - b.priority)
}
