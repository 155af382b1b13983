// Light, dark, or as the system says.

import { h } from './dom';

const THEMES = ['auto', 'light', 'dark'] as const;
type Theme = (typeof THEMES)[number];

/** Storage is refused to some pages opened from disk; the choice then lasts as long as the page. */
function stored(): Theme {
  try {
    const value = localStorage.getItem('focalibrate-theme');
    return THEMES.find((theme) => theme === value) ?? 'auto';
  } catch {
    return 'auto';
  }
}

function store(theme: Theme): void {
  try {
    localStorage.setItem('focalibrate-theme', theme);
  } catch {
    // see above
  }
}

export function themeButton(): HTMLElement {
  let theme = stored();
  const button = h('button', { type: 'button', class: 'theme', onclick: () => { theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length]; apply(); store(theme); } });
  function apply(): void {
    if (theme === 'auto') delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    button.textContent = `Theme: ${theme}`;
  }
  apply();
  return button;
}
