//! Files below the state directory. Every failure leaves as a sentence that names the path.

use std::fs;
use std::path::{Component, Path, PathBuf};

use crate::say::{Done, OrDie};

pub fn write(path: &Path, text: &str) -> Done {
    fs::write(path, text).or_die(format!("cannot write {}", path.display()))
}

/// Written beside its place and renamed, so that a reader never sees half of it.
pub fn replace(path: &Path, text: &str) -> Done {
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    write(Path::new(&new), text)?;
    rename(Path::new(&new), path)
}

pub fn rename(from: &Path, to: &Path) -> Done {
    fs::rename(from, to).or_die(format!("cannot rename {} to {}", from.display(), to.display()))
}

pub fn make_folder(path: &Path) -> Done {
    fs::create_dir_all(path).or_die(format!("cannot create {}", path.display()))
}

/// Removes a file, a link (never what it points to) or a folder with everything in it. What is not there is removed already.
pub fn remove(path: &Path) -> Done {
    let Ok(meta) = fs::symlink_metadata(path) else { return Ok(()) };
    let removed = if meta.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    match removed {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        other => other.or_die(format!("cannot remove {}", path.display())),
    }
}

/// Tells whether two paths lead to one file or folder. A process in another root knows a folder by another path.
pub fn same(one: &Path, other: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let identity = |path: &Path| fs::metadata(path).map(|meta| (meta.dev(), meta.ino())).ok();
    matches!((identity(one), identity(other)), (Some(one), Some(other)) if one == other)
}

pub fn size(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |meta| meta.len())
}

/// An absolute path without links, whose end need not exist.
pub fn resolve(path: &Path) -> Done<PathBuf> {
    let absolute = std::path::absolute(path).or_die(format!("cannot resolve {}", path.display()))?;
    let mut resolved = PathBuf::new();
    for part in absolute.components() {
        match part {
            Component::ParentDir => {
                resolved.pop();
            }
            Component::CurDir => {}
            Component::RootDir | Component::Normal(_) | Component::Prefix(_) => {
                resolved.push(part);
                resolved = resolved.canonicalize().unwrap_or(resolved);
            }
        }
    }
    Ok(resolved)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_resolves_also_where_its_end_is_missing() {
        let folder = std::env::temp_dir().join(format!("xtask-resolve-{}", std::process::id()));
        fs::create_dir_all(folder.join("real")).unwrap();
        std::os::unix::fs::symlink("real", folder.join("link")).unwrap();
        let real = folder.canonicalize().unwrap().join("real");
        assert_eq!(resolve(&folder.join("link/a/../b")).unwrap(), real.join("b"));
        remove(&folder.join("link")).unwrap();
        assert!(real.is_dir(), "removing a link leaves what it points to");
        remove(&folder).unwrap();
        remove(&folder).unwrap();
        assert!(!folder.exists());
    }
}
