import { overview, profile } from '../state.ts'

/** Whose tools are shown. Absent while there is one profile. */
export function ProfileChoice() {
  const profiles = overview.value?.profiles ?? []
  if (profiles.length < 2) return null
  return (
    <label>
      <span class="unseen">Profile</span>
      <select
        value={profile.value}
        onChange={(event) => {
          profile.value = event.currentTarget.value
        }}
      >
        {profiles.map((name) => (
          <option key={name} value={name}>
            Profile {name}
          </option>
        ))}
      </select>
    </label>
  )
}
